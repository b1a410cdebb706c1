#include "sim/cuda/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits>
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

void SleepOnSeat(std::atomic<uint32_t>* word, uint32_t seen, Nanos until) {
  timespec deadline{};
  deadline.tv_sec = until / kSecond;
  deadline.tv_nsec = until % kSecond;
  const bool is_forever = until == std::numeric_limits<Nanos>::max();
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, is_forever ? nullptr : &deadline, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void WakeSeat(std::atomic<uint32_t>* word) {
  word->fetch_add(1);
  syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace krux::sim
