#include "limiter/compute/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "limiter/driver/loader.h"
#include "limiter/life/futex.h"
#include "limiter/life/log.h"
#include "limiter/life/pages.h"

namespace krux::limiter {
namespace {

constexpr int64_t kMicro = 1000, kMilli = 1000 * kMicro;
constexpr int64_t kIdleAfter = 100 * kMicro;     // without work: hand the lease on
constexpr int64_t kIdleAfterAlone = 2 * kMilli;  // the same while nobody else waits
constexpr int64_t kShortestLook = 20 * kMicro;   // while a drain is awaited
constexpr int64_t kLongestLook = 2 * kMilli;     // while a lease is held
// While a drain is awaited: when its end is known to 50 us the card hardly stands idle behind it.
constexpr int64_t kDrainLook = 100 * kMicro;
constexpr int64_t kSpinBelow = 60 * kMicro;  // the end of a drain is waited for without sleep
constexpr int64_t kSpinAtMost = 150 * kMicro;
constexpr int64_t kReconnectEvery = 100 * kMilli;
constexpr int kReconnectTimeoutMs = 1000;

uint32_t EpochOf(uint32_t lease_word) { return lease_word >> 1; }
bool Held(uint32_t lease_word) { return (lease_word & 1) != 0; }

}  // namespace

void Keeper::Start(const LimitsPage* limits, const char* folder) {
  if (started()) return;
  const LockGuard guard(start_lock_);
  if (started()) return;
  limits_ = limits;
  folder_ = folder;
  const ThreadFunctions threads = RealThreadFunctions();
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
  if (high >= 0) {
    close(fd);
    fd = high;
  }
  wake_fd_.store(fd, std::memory_order_release);
  // sigprocmask is the calling thread's alone on Linux; pthread_sigmask would need libpthread.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const bool running =
      threads.create != nullptr && threads.create(&thread, nullptr, &ThreadMain, this) == 0;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!running) return LogLine("no thread for the GPU leases; launches will wait");
  if (threads.detach != nullptr) threads.detach(thread);
  started_.store(true, std::memory_order_release);
}

void Keeper::Wake() {
  const int saved = errno;
  const uint64_t one = 1;
  const int fd = wake_fd_.load(std::memory_order_acquire);
  if (fd >= 0 && write(fd, &one, sizeof one) < 0) errno = saved;
  errno = saved;
}

void* Keeper::ThreadMain(void* self) {
  prctl(PR_SET_NAME, "krux-keeper");
  prctl(PR_SET_TIMERSLACK, 1000);
  static_cast<Keeper*>(self)->Run();
  return nullptr;
}

void Keeper::Run() {
  for (;;) {
    ReadNotices();
    int64_t next = kForever;
    if (gate_->agent_lost()) {
      TryReconnect();
      next = gate_->agent_lost() ? kReconnectEvery : 0;
    } else {
      for (uint32_t gpu = 0; gpu < limits_->gpu_count; ++gpu) {
        const int64_t look = Look(gpu);
        if (look != kForever) next = next == kForever ? look : std::min(next, look);
      }
    }
    SleepFor(next);
  }
}

void Keeper::SleepFor(int64_t nanos) {
  pollfd sources[2] = {{wake_fd_.load(std::memory_order_acquire), POLLIN, 0},
                       {link_->fd(), POLLIN, 0}};
  // While the agent is gone its descriptor is always ready.
  const nfds_t count = gate_->agent_lost() ? 1 : 2;
  const timespec timeout{nanos / (1000 * kMilli), nanos % (1000 * kMilli)};
  ppoll(sources, count, nanos == kForever ? nullptr : &timeout, nullptr);
  uint64_t ignored = 0;
  while (read(wake_fd_.load(std::memory_order_acquire), &ignored, sizeof ignored) > 0) {
  }
}

// A notice only wakes: what it says stands in the limits page.
void Keeper::ReadNotices() {
  if (gate_->agent_lost()) return;
  wire::Notice notice;
  for (int i = 0; i < 64; ++i) {
    switch (link_->Receive(&notice)) {
      case AgentLink::Received::kNotice:
        continue;
      case AgentLink::Received::kNothing:
        return;
      case AgentLink::Received::kAgentGone:
        return OnAgentGone();
    }
  }
}

// Leases are void without the one who gives and ends them; the windows of the page take over.
void Keeper::OnAgentGone() {
  streams_->FreezeCosts(true);
  gate_->SetAgentLost(true);
  for (uint32_t gpu = 0; gpu < limits_->gpu_count; ++gpu) {
    account_->Mine(gpu)->active_epoch.store(0, std::memory_order_seq_cst);
  }
}

void Keeper::TryReconnect() {
  AgentLink::Admission admission;
  if (link_->Connect(folder_, account_->slot(), kReconnectTimeoutMs, &admission)) return;
  const wire::Welcome& welcome = admission.welcome;
  if (welcome.slot >= kMaxPageProcesses) return;
  if (welcome.account_changed != 0 || welcome.slot != account_->slot()) {
    AccountPage* page = nullptr;
    if (Problem problem = MapAccount(admission.account.get(), limits_->gpu_count, &page)) {
      return LogLine("%s", problem.text);
    }
    account_->Attach(limits_, page, welcome.slot, limits_->gpu_count);
  }
  streams_->FreezeCosts(false);
  gate_->SetAgentLost(false);
}

int64_t Keeper::Look(uint32_t gpu) {
  const uint32_t epoch = account_->Mine(gpu)->active_epoch.load(std::memory_order_seq_cst);
  if (epoch == 0) return kForever;
  const GpuLimits& lease = limits_->gpus[gpu];
  const uint32_t lease_word = lease.lease_word.load(std::memory_order_seq_cst);
  const Ticks end = lease.lease_end_tsc.load(std::memory_order_acquire);
  if (Held(lease_word) && EpochOf(lease_word) == epoch && TicksNow() < end) {
    return LookAtHeldLease(gpu, epoch, end);
  }
  return LookAtEndedLease(gpu, epoch);
}

uint64_t Keeper::IssuedOn(uint32_t gpu) {
  uint64_t issued = 0;
  streams_->ForEach([&](Stream& stream) {
    if (stream.gpu.load(std::memory_order_relaxed) == gpu) issued += stream.track.issued();
  });
  return issued;
}

Ticks Keeper::LastProgress(uint32_t gpu) {
  Ticks last = 0;
  streams_->ForEach([&](Stream& stream) {
    if (stream.gpu.load(std::memory_order_relaxed) == gpu) {
      last = std::max(last, stream.track.last_progress());
    }
  });
  return last;
}

bool Keeper::AllFinished(uint32_t gpu, Ticks now) {
  bool finished = true;
  streams_->ForEach([&](Stream& stream) {
    if (!finished || stream.gpu.load(std::memory_order_relaxed) != gpu) return;
    // Somebody launches or synchronizes there just now.
    if (!stream.track.lock().TryAcquire()) {
      finished = false;
      return;
    }
    finished = stream.track.Finished(now);
    stream.track.lock().Release();
  });
  return finished;
}

int64_t Keeper::NanosUntilPredictedDone(uint32_t gpu, Ticks now) {
  Ticks done = now;
  streams_->ForEach([&](Stream& stream) {
    if (stream.gpu.load(std::memory_order_relaxed) != gpu) return;
    if (stream.track.outstanding_launches() != 0)
      done = std::max(done, stream.track.expected_done());
  });
  const TickRate rate(limits_->tsc_per_second.load(std::memory_order_relaxed));
  return static_cast<int64_t>(rate.ToNanos(done - now));
}

// While the next tenant waits a wake-up of this thread would cost the GPU more than it takes to
// look.
bool Keeper::SpinUntilFinished(uint32_t gpu, Ticks now) {
  const TickRate rate(limits_->tsc_per_second.load(std::memory_order_relaxed));
  const int64_t left = NanosUntilPredictedDone(gpu, now);
  account_->HintDrain(now + rate.FromNanos(static_cast<uint64_t>(left)));
  if (left > kSpinBelow) return false;
  const Ticks until = now + rate.FromNanos(kSpinAtMost);
  while (!AllFinished(gpu, TicksNow())) {
    if (TicksNow() > until) return false;
    __builtin_ia32_pause();
  }
  return true;
}

int64_t Keeper::LookAtEndedLease(uint32_t gpu, uint32_t epoch) {
  const Ticks now = TicksNow();
  account_->Mine(gpu)->launches.store(IssuedOn(gpu), std::memory_order_relaxed);
  if (!words_->AllClear()) return kShortestLook / 4;
  if (!AllFinished(gpu, now) && !SpinUntilFinished(gpu, now)) {
    const int64_t left = NanosUntilPredictedDone(gpu, TicksNow());
    return std::clamp(left - kSpinBelow, kShortestLook, kDrainLook);
  }
  // A thread may have put a newer epoch here meanwhile: that is another lease.
  uint32_t expected = epoch;
  if (!account_->Mine(gpu)->active_epoch.compare_exchange_strong(expected, 0)) return 0;
  link_->Send(wire::EventKind::kDrained, gpu, epoch);
  idle_[gpu] = IdleClock{};
  return kForever;
}

int64_t Keeper::LookAtHeldLease(uint32_t gpu, uint32_t epoch, Ticks lease_end) {
  const TickRate rate(limits_->tsc_per_second.load(std::memory_order_relaxed));
  const Ticks now = TicksNow();
  const uint64_t issued = IssuedOn(gpu);
  account_->Mine(gpu)->launches.store(issued, std::memory_order_relaxed);
  const bool finished = words_->AllClear() && AllFinished(gpu, now);
  const Ticks idle_ticks = idle_[gpu].Look(finished, issued, LastProgress(gpu), now);
  int64_t next = 0;
  if (!finished) {
    next = std::clamp(NanosUntilPredictedDone(gpu, now), kIdleAfter, kLongestLook);
  } else {
    const int64_t limit = lease_end == UINT64_MAX ? kIdleAfterAlone : kIdleAfter;
    const auto idle = static_cast<int64_t>(rate.ToNanos(idle_ticks));
    if (idle >= limit && HandOn(gpu, epoch)) return kForever;
    next = std::max(limit - idle, kShortestLook);
  }
  if (lease_end == UINT64_MAX) return next;
  return std::min(next, static_cast<int64_t>(rate.ToNanos(lease_end - now)) + 2 * kMicro);
}

// Gives an idle lease back. A launch that begins just now either sees the cleared epoch and waits
// for nothing (it activates the lease anew), or is seen here by its word.
bool Keeper::HandOn(uint32_t gpu, uint32_t epoch) {
  std::atomic<uint32_t>& active = account_->Mine(gpu)->active_epoch;
  uint32_t expected = epoch;
  gate_->NoteIdleSaid(gpu, epoch);
  if (!active.compare_exchange_strong(expected, 0)) return false;
  if (!words_->AllClear() || IssuedOn(gpu) != idle_[gpu].issued()) {
    expected = 0;
    active.compare_exchange_strong(expected, epoch);
    return false;
  }
  idle_[gpu] = IdleClock{};
  link_->Send(wire::EventKind::kIdle, gpu, epoch);
  // A launch that came in between has said kWant before the agent heard of the idleness.
  if (active.load(std::memory_order_seq_cst) != 0) link_->Send(wire::EventKind::kWant, gpu, 0);
  return true;
}

void Keeper::ForgetAfterFork() {
  start_lock_.Forget();
  started_.store(false, std::memory_order_relaxed);
  const int fd = wake_fd_.exchange(-1);
  if (fd >= 0) close(fd);
  for (IdleClock& idle : idle_) idle = IdleClock{};
}

}  // namespace krux::limiter
