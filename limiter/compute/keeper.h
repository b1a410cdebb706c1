// The thread that looks after the leases of the process while the application computes: it sees
// when a lease has ended, waits until nothing of it is left, says so to the agent, and hands an
// idle lease on. It also notices that the agent is gone and finds it again.
//
// It sleeps while the process holds no lease, and otherwise until the work in flight is predicted
// to be done. It calls no driver. Started by cuInit; blocks all signals.
//
// Thread rule: Start and Wake by any thread; the rest is the thread's own.
#ifndef KRUX_LIMITER_COMPUTE_KEEPER_H_
#define KRUX_LIMITER_COMPUTE_KEEPER_H_

#include <atomic>
#include <cstdint>

#include "limiter/compute/gate.h"
#include "limiter/compute/idle_clock.h"
#include "limiter/life/lock.h"

namespace krux::limiter {

class Keeper {
 public:
  constexpr Keeper(Account* account, AgentLink* link, Streams* streams, ThreadWords* words,
                   Gate* gate)
      : account_(account), link_(link), streams_(streams), words_(words), gate_(gate) {}

  // The first call starts the thread. `folder` lives as long as the process.
  void Start(const LimitsPage* limits, const char* folder);
  bool started() const { return started_.load(std::memory_order_acquire); }
  void Wake();

  void ForgetAfterFork();

 private:
  static void* ThreadMain(void* self);
  void Run();
  void ReadNotices();
  void OnAgentGone();
  void TryReconnect();
  // Looks at one GPU; returns for how many nanoseconds nothing can happen, or kForever.
  int64_t Look(uint32_t gpu);
  int64_t LookAtEndedLease(uint32_t gpu, uint32_t epoch);
  int64_t LookAtHeldLease(uint32_t gpu, uint32_t epoch, Ticks lease_end);
  bool HandOn(uint32_t gpu, uint32_t epoch);
  bool AllFinished(uint32_t gpu, Ticks now);
  bool SpinUntilFinished(uint32_t gpu, Ticks now);
  uint64_t IssuedOn(uint32_t gpu);
  Ticks LastProgress(uint32_t gpu);
  int64_t NanosUntilPredictedDone(uint32_t gpu, Ticks now);
  void SleepFor(int64_t nanos);

  Account* account_;
  AgentLink* link_;
  Streams* streams_;
  ThreadWords* words_;
  Gate* gate_;
  const LimitsPage* limits_ = nullptr;
  const char* folder_ = nullptr;
  std::atomic<bool> started_{false};
  std::atomic<int> wake_fd_{-1};
  Lock start_lock_;
  IdleClock idle_[kMaxPageGpus];
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_COMPUTE_KEEPER_H_
