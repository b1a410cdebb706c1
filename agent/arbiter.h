// The policy that decides whose turn it is on one GPU. A pure object: it reads no clock, takes no
// lock, does no I/O; `now` is an argument of every call and never goes backwards. LeaseService
// (lease_service.h) binds it to pages, messages and timers; tests run it in virtual time.
//
// Events go in (OnWant, OnIdle, OnDrained, ...); after each the caller asks Decide for what is to
// be done, does it, and comes back at NextTimer at the latest.
//
// How it decides: a virtual-time fair queue over measured GPU time. A tenant that used t advances
// by t / weight, and the one that is furthest behind comes next. The time from grant to drain is
// its use, so an overrun is a debt by itself. Idle tenants are not in the queue; they come back
// level with the others and hoard nothing. `fixed` adds a budget that is filled each period.
// A turn is planned from grant to drain: its lease ends earlier by what the tenant usually has in
// flight. `none` runs when nobody else wants to. `latency` cuts into the turns of others as long as
// it is not ahead of its share by more than a cycle.
//
// Together (SetTogether): tenants whose gaps let the card stand idle in turns hold it at the same
// time and the hardware interleaves them; each is charged an equal part of the time. Whether that
// is better is measured by OverlapProbe (overlap_probe.h), never guessed. Tenants with a ceiling,
// `none` and `latency` are always in turns.
//
// Invariants: in turns at most one tenant holds the GPU; the next one waits for its drain, but
// never longer than Options::grace. A tenant that has not drained by then is a straggler: it goes
// on being charged, up to Options::max_debt, and is shown as such.
#ifndef KRUX_AGENT_ARBITER_H_
#define KRUX_AGENT_ARBITER_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "agent/usage_meter.h"
#include "common/clock.h"
#include "protocol/grant.h"

namespace krux::agent {

// What a tenant was promised on this GPU.
struct Shares {
  uint32_t cores = 0;  // percent of the GPU's time, 0 .. 100
  ComputePolicy policy = ComputePolicy::kBalance;
  Priority priority = Priority::kNormal;
  uint64_t memory_bytes = 0;  // weighs the tenants without cores against each other
  bool operator==(const Shares&) const = default;
};

class Arbiter {
 public:
  using TenantId = uint32_t;
  static constexpr Nanos kOpenEnd = std::numeric_limits<Nanos>::max();

  struct Options {
    Nanos max_gap = 60 * kMillisecond;         // the longest wait of one of two tenants
    Nanos small_slice = 24 * kMillisecond;     // of the smallest share, where max_gap allows it;
                                               // from grant to drain
    Nanos min_slice = 2 * kMillisecond;        // no turn is planned shorter
    Nanos latency_cycle = 20 * kMillisecond;   // the longest cycle while a latency tenant waits
    Nanos ceiling_period = 50 * kMillisecond;  // a second is a whole number of them
    Nanos grace = 100 * kMillisecond;          // from the end of a lease to its drain
    Nanos max_debt = 2 * kSecond;              // GPU time that a tenant can be ahead
    Nanos max_parked = 1 * kSecond;            // a lease without work is kept so long
    Nanos short_together =
        150 * kMillisecond;  // charges of so short a time together are settled in
                             // turns later; of a longer one not: all gained by it
  };

  struct Action {
    enum class Kind {
      kGrant,   // give the tenant a lease that ends at `deadline`
      kExtend,  // the lease that it holds ends at `deadline` now, later or earlier
      kEnd,     // take it back; report OnDrained when nothing of it is left
    };
    Kind kind = Kind::kGrant;
    TenantId tenant = 0;
    Nanos deadline = kOpenEnd;
    bool operator==(const Action&) const = default;
  };

  struct View {
    Shares shares;
    double weight = 0;  // its part in the queue, as 1 = the whole card
    bool waiting = false;
    bool holding = false;
    bool parked = false;  // holds a lease but has no work
    bool straggling = false;
    Nanos waiting_for = 0;  // since it asked
    Nanos waited = 0;       // in all, that included
    uint64_t leases = 0;    // that it was given
    Nanos used = 0;         // GPU time in all
    double share_1s = 0;    // of the last second, 0 .. 1
    double share_60s = 0;
  };

  explicit Arbiter(const Options& options) : options_(options) {}

  void Add(TenantId tenant, const Shares& shares, Nanos now);
  // The tenant is gone with all its work: a lease of it ends without an action.
  void Remove(TenantId tenant, Nanos now);
  void SetShares(TenantId tenant, const Shares& shares, Nanos now);

  // A launch of the tenant waits. While it holds a lease this counts only close to the end: a
  // message may cross a grant.
  void OnWant(TenantId tenant, Nanos now);
  // The holder has no work: the next one may come. Without a next one it keeps the lease, parked.
  void OnIdle(TenantId tenant, Nanos now);
  // The holder of a parked lease has work again.
  void OnActive(TenantId tenant, Nanos now);
  // A lease that was taken back (kEnd) is drained.
  void OnDrained(TenantId tenant, Nanos now);
  // No process of the tenant is left to run anything: as OnIdle, and it no longer waits.
  void OnAbsent(TenantId tenant, Nanos now);

  // Lets all that may be together run at the same time, or goes back to turns.
  void SetTogether(bool together, Nanos now);
  bool together() const { return together_; }
  // Whether nobody who wants or uses the card now has to be in turns.
  bool MayBeTogether() const;
  // Tenants that want or use the card now.
  size_t Busy() const;

  // Who gets the card when nobody ends a lease any more: for preparations.
  std::optional<TenantId> Upcoming(Nanos now) const { return Next(now); }

  std::vector<Action> Decide(Nanos now);
  // When Decide must be asked again even without an event; kOpenEnd = not at all.
  Nanos NextTimer(Nanos now) const;

  bool Waits(TenantId tenant) const;
  // The tenant may use the card now, or still has work of a lease that has ended.
  bool Uses(TenantId tenant) const;
  View Look(TenantId tenant, Nanos now);

 private:
  enum class Lease { kNone, kHeld, kEnding, kStraggling };
  enum Class { kGuaranteed = 0, kLeftOver = 1 };  // two queues: `none` is the second

  struct Tenant {
    Shares shares;
    double weight = 0;
    double virtual_time = 0;  // nanoseconds of use / weight
    Lease lease = Lease::kNone;
    bool wants = false;  // waits for a lease
    bool fresh = false;  // has come into the queue since the last decision
    bool parked = false;
    Nanos wants_since = 0;
    Nanos queued_since = 0;   // its place among those that are level; newcomers get some ahead
    Nanos lingers_until = 0;  // it lost its lease with work to do and will soon ask again
    Nanos begin = 0;          // of the lease
    Nanos turn_end = 0;       // of its turn among the others
    Nanos end = 0;            // of the lease: the turn's or the budget's, whichever is first
    Nanos ended = 0;          // when it was taken back
    Nanos usual_drain = 0;    // from there until its work was done
    Nanos parked_since = 0;
    Nanos charged_until = 0;
    Nanos budget = 0;  // `fixed`: GPU time left in this period; negative: debt
    Nanos used = 0;
    Nanos waited = 0;
    uint64_t leases = 0;
    UsageMeter meter;
  };

  // All that compete for the GPU now, seen from the holder of a turn.
  struct Field {
    size_t others = 0;
    double weight = 0;    // sum, the holder's included
    double smallest = 1;  // smallest weight / sum
    bool latency = false;
    double first_rank = 0;  // of the others
  };

  static Class ClassOf(const Tenant& tenant);
  static bool HasCeiling(const Tenant& tenant);
  Tenant* Find(TenantId tenant);
  Tenant* Holder() { return holder_ ? &tenants_.at(*holder_) : nullptr; }

  static bool Runs(const Tenant& tenant);
  static bool MustTakeTurns(const Tenant& tenant);

  void ComputeWeights();
  void Charge(Tenant& tenant, double part, Nanos now);
  void FillBudgets(Nanos now);
  void CatchUp(Nanos now);
  void Join(Tenant& tenant, Nanos now);
  static void StopWaiting(Tenant& tenant, Nanos now);

  Nanos PeriodBudget(const Tenant& tenant) const;
  bool Eligible(const Tenant& tenant) const;
  bool Competes(const Tenant& tenant, Nanos now) const;
  double Rank(const Tenant& tenant) const;
  Field FieldOf(const Tenant& holder, Nanos now) const;
  double Lead(const Field& field) const;
  Nanos Turn(const Tenant& holder, Nanos now) const;
  Nanos LeaseEnd(const Tenant& holder, Nanos now) const;
  bool Preempts(const Tenant& waiter, const Tenant& holder) const;
  bool IsPreempted(const Tenant& holder) const;
  bool AnyoneEligible(Class worst) const;
  std::optional<TenantId> Next(Nanos now) const;

  bool MustEnd(const Tenant& holder, Nanos now) const;
  void PlanTurn(Tenant& holder, Nanos now);
  void StepHolder(Nanos now, std::vector<Action>* actions);
  void StepTogether(Nanos now, std::vector<Action>* actions);
  void End(TenantId id, Nanos now, std::vector<Action>* actions);
  void GiveUpWaiting(Nanos now);
  bool AnyoneEnding() const;
  void Grant(TenantId id, Nanos now, std::vector<Action>* actions);

  Options options_;
  std::map<TenantId, Tenant> tenants_;
  std::optional<TenantId> holder_;  // of the turn; while together there is none
  bool together_ = false;
  Nanos together_since_ = 0;
  double virtual_clock_[2] = {0, 0};
  Nanos period_ = 0;  // number of the period for which budgets are filled
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_ARBITER_H_
