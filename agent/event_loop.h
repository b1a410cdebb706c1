// The agent's one loop: sockets, pidfds, timers and tasks of other threads, one after the other in
// one thread. Handlers must be short; what can take long goes to a Worker, which posts its result.
//
// Thread rule: Post and Stop from any thread, everything else from the loop's thread (before Run,
// that is whoever made it).
#ifndef KRUX_AGENT_EVENT_LOOP_H_
#define KRUX_AGENT_EVENT_LOOP_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"
#include "common/result.h"

namespace krux::agent {

class EventLoop {
 public:
  using Task = std::function<void()>;
  using TimerId = std::pair<Nanos, uint64_t>;

  static Result<std::unique_ptr<EventLoop>> Make();

  // Calls `ready` whenever `fd` can be read or its peer is gone. The caller keeps the descriptor
  // and calls Forget before it closes it; a handler may forget any descriptor, its own too.
  Status Watch(int fd, Task ready);
  void Forget(int fd);

  TimerId After(Nanos delay, Task task);
  void Cancel(TimerId timer) { timers_.erase(timer); }

  void Post(Task task);
  void Run();
  void Stop();

 private:
  EventLoop() = default;
  void RunTimers();
  void RunPosted();
  int WaitMillis() const;

  struct Watched {
    int fd = -1;
    Task ready;
  };
  UniqueFd epoll_;
  UniqueFd wake_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::shared_ptr<Watched>> watched_;  // by the id in epoll's data
  std::map<int, uint64_t> ids_;                           // by descriptor
  std::map<TimerId, Task> timers_;

  std::mutex mutex_;
  std::vector<Task> posted_;  // guarded by mutex_
  bool stop_ = false;         // guarded by mutex_
};

// One thread that runs tasks in order: calls that can block for milliseconds or more.
// The destructor finishes the running task and drops the others.
class Worker {
 public:
  Worker();
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void Do(EventLoop::Task task);  // from any thread

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<EventLoop::Task> tasks_;  // guarded by mutex_
  bool stop_ = false;                  // guarded by mutex_
  std::thread thread_;                 // last: it uses the others
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_EVENT_LOOP_H_
