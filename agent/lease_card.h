// One GPU of the node: its Arbiter, bound to the pages of the tenants that share it. LeaseService
// owns one for each card and calls it under its lock; `now` is MonotonicNow().
//
// What the arbiter decides is written into lease words (futex), and what tenants report is checked
// against their active_epoch words before it is believed. Those words are the tenants': a lie makes
// a tenant's own work run in other's time, which time slicing punishes, but never gets it a lease,
// never keeps one beyond the arbiter's grace, and never makes the agent wait.
//
// Thread rule: none of its own; the caller's lock guards it.
#ifndef KRUX_AGENT_LEASE_CARD_H_
#define KRUX_AGENT_LEASE_CARD_H_

#include <cstdint>
#include <functional>
#include <map>

#include "agent/arbiter.h"
#include "agent/overlap_probe.h"
#include "common/clock.h"
#include "protocol/limiter_messages.h"
#include "protocol/pages.h"

namespace krux::agent {

// The live processes of a container: account slot -> how to send it a notice.
using ProcessMap = std::map<uint32_t, std::function<void(const wire::Notice&)>>;

// Where the lease of one tenant lives.
struct LeasePlace {
  uint32_t page_gpu = 0;
  LimitsPage* limits = nullptr;
  const AccountPage* account = nullptr;
  const ProcessMap* processes = nullptr;
};

class LeaseCard {
 public:
  using LeaseId = Arbiter::TenantId;

  LeaseCard(const Arbiter::Options& options, uint64_t tsc_per_second)
      : arbiter_(options), tsc_per_second_(tsc_per_second) {}

  void Add(LeaseId id, const LeasePlace& place, const Shares& shares, Nanos now);
  void Remove(LeaseId id, Nanos now);
  void SetShares(LeaseId id, const Shares& shares, Nanos now);
  bool empty() const { return leases_.empty(); }

  void OnWant(LeaseId id, Nanos now);
  // kIdle and kDrained: the process says that it has no work under `epoch`.
  void OnNoWork(LeaseId id, uint32_t epoch, Nanos now);
  // A process has been taken out of the ProcessMap.
  void OnProcessLeft(LeaseId id, Nanos now);
  void OnTimer(Nanos now);
  // When OnTimer is due; Arbiter::kOpenEnd = not at all.
  Nanos NextTimer(Nanos now) const;

  bool together() const { return arbiter_.together(); }
  // Marks a parked holder that works again, then looks.
  Arbiter::View Look(LeaseId id, Nanos now);

  // Every lease is taken back, without waiting: the agent is about to end.
  void EndAll();

 private:
  struct Lease {
    LeasePlace place;
    Priority priority = Priority::kNormal;
    uint32_t epoch = 0;  // as in the lease word
    bool held = false;
    bool claimed = false;  // a process has taken the held lease up
    Nanos granted = 0;
    uint32_t draining = 0;  // the epoch that was taken back and is not drained; 0 = none
    Nanos drain_since = 0;
    Nanos look_again = Arbiter::kOpenEnd;
    uint32_t looks = 0;  // near the expected end of the drain
    Nanos usual_drain = 0;
    GpuLimits& word() const { return place.limits->gpus[place.page_gpu]; }
  };

  static bool HasWork(const Lease& lease, uint32_t epoch);
  static bool HasBlocked(const Lease& lease);
  void SetWord(Lease& lease, bool held);
  uint64_t DeadlineTsc(Nanos deadline) const;

  void Step(Nanos now);
  void LookTogether(Nanos now);
  size_t Backlogged() const;
  void Beat(Nanos now);
  uint64_t LaunchesOf(const Lease& lease) const;
  void BoundOthersOfLatency();
  void Apply(const Arbiter::Action& action, Nanos now);
  void Grant(Lease& lease, Nanos deadline, Nanos now);
  void Extend(Lease& lease, Nanos deadline);
  void End(Lease& lease, Nanos now);
  void CheckDrain(LeaseId id, Lease& lease, Nanos now);
  void LookForDrain(LeaseId id, Lease& lease, Nanos now);
  Nanos ExpectedDrain(const Lease& lease, Nanos now) const;
  void WakeAhead(Lease& lease) const;
  Nanos WakeAheadOfPeriod(Nanos now) const;
  void Park(LeaseId id, Lease& lease, Nanos now);
  void CheckHeld(LeaseId id, Lease& lease, Nanos now);
  void PublishWindows(Nanos now);

  Arbiter arbiter_;
  OverlapProbe probe_;
  uint64_t tsc_per_second_;
  Nanos next_beat_ = Arbiter::kOpenEnd;
  Nanos woken_for_ = 0;  // the arbiter's timer for which waiters were woken ahead
  std::map<LeaseId, Lease> leases_;
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_LEASE_CARD_H_
