#include "agent/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace krux::agent {
namespace {

constexpr uint64_t kWakeId = 0;

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::Make() {
  std::unique_ptr<EventLoop> loop(new EventLoop());
  loop->epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
  loop->wake_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->epoll_.valid() || !loop->wake_.valid())
    return ErrnoError(errno, "making the event loop");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeId;
  if (epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->wake_.get(), &event) != 0) {
    return ErrnoError(errno, "making the event loop");
  }
  return loop;
}

Status EventLoop::Watch(int fd, Task ready) {
  const uint64_t id = next_id_++;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return ErrnoError(errno, "watching a descriptor");
  }
  watched_[id] = std::make_shared<Watched>(Watched{fd, std::move(ready)});
  ids_[fd] = id;
  return Ok();
}

void EventLoop::Forget(int fd) {
  const auto found = ids_.find(fd);
  if (found == ids_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watched_.erase(found->second);
  ids_.erase(found);
}

EventLoop::TimerId EventLoop::After(Nanos delay, Task task) {
  const TimerId timer{MonotonicNow() + std::max<Nanos>(delay, 0), next_id_++};
  timers_.emplace(timer, std::move(task));
  return timer;
}

void EventLoop::Post(Task task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    posted_.push_back(std::move(task));
  }
  eventfd_write(wake_.get(), 1);
}

void EventLoop::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  eventfd_write(wake_.get(), 1);
}

void EventLoop::RunPosted() {
  std::vector<Task> tasks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks.swap(posted_);
  }
  for (Task& task : tasks) task();
}

void EventLoop::RunTimers() {
  const Nanos now = MonotonicNow();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const Task task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
  }
}

int EventLoop::WaitMillis() const {
  if (timers_.empty()) return -1;
  const Nanos left = timers_.begin()->first.first - MonotonicNow();
  if (left <= 0) return 0;
  return static_cast<int>(std::min<Nanos>(left / kMillisecond + 1, INT_MAX));
}

void EventLoop::Run() {
  std::array<epoll_event, 64> events{};
  while (true) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) return;
    }
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), WaitMillis());
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id == kWakeId) {
        eventfd_t value = 0;
        eventfd_read(wake_.get(), &value);
        continue;
      }
      // An earlier handler of this batch may have forgotten it.
      const auto found = watched_.find(id);
      if (found == watched_.end()) continue;
      const std::shared_ptr<Watched> watched = found->second;
      watched->ready();
    }
    RunPosted();
    RunTimers();
  }
}

Worker::Worker() : thread_([this] { Run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::Do(EventLoop::Task task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void Worker::Run() {
  while (true) {
    EventLoop::Task task;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (stop_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace krux::agent
