#include "sim/cuda/threads.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <thread>
#include <utility>

namespace krux::sim {

void StartThread(const char* name, std::function<void()> body) {
  // Signals are blocked before the thread exists, so that it never takes one of the program's.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1);
    body();
  });
  thread.detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace krux::sim
