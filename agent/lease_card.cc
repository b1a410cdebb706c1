#include "agent/lease_card.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <vector>

#include "agent/time_windows.h"
#include "common/tsc.h"

namespace krux::agent {
namespace {

// A granted lease that no process takes up within this time counts as idle: the message that asked
// for it had been overtaken, or its sender is gone or lied.
constexpr Nanos kClaimWithin = 5 * kMillisecond;
// The same when the account says that threads wait at the gate: on a busy host they wake up late.
// It is the tenant's own time that passes.
constexpr Nanos kClaimByBlocked = 30 * kMillisecond;
// The limiter says when it expects its drain to be over. So long before that the next tenant's
// thread is woken; and around that time the agent looks by itself, because a message and two
// wake-ups would leave the card idle for longer.
constexpr Nanos kFirstHint = 120 * kMicrosecond;  // after the end of a lease the hint is there
constexpr Nanos kWakeAhead = 120 * kMicrosecond;
constexpr Nanos kLookAhead = 10 * kMicrosecond;
constexpr Nanos kSpin = 60 * kMicrosecond;
constexpr Nanos kHintEvery = 500 * kMicrosecond;  // it becomes better as the drain goes on
constexpr Nanos kLookEvery = 50 * kMicrosecond;
constexpr uint32_t kMostLooks = 12;
constexpr Nanos kSoon = 400 * kMicrosecond;  // how long a thread that was woken ahead watches
// How often a drain is looked at when no message says that it is over; stragglers more seldom.
constexpr Nanos kDrainCheck = 5 * kMillisecond;
constexpr Nanos kStragglerCheck = 100 * kMillisecond;
// What others may have in flight beside a latency tenant: it waits for that, or for one kernel.
constexpr uint32_t kInFlightBesideLatencyUs = 700;
// A drain that is usually longer: a step of an eager decoder leaves less behind, saturating tenants
// the 2 to 4 ms that a stream may have in flight.
constexpr Nanos kBacklog = 1500 * kMicrosecond;
constexpr Nanos kBeatEvery = 20 * kMillisecond;
// How often a lease that is kept without work is looked at.
constexpr Nanos kParkedCheck = 20 * kMillisecond;

uint32_t NextEpoch(uint32_t epoch) {
  const uint32_t next = (epoch + 1) & (UINT32_MAX >> 1);
  return next == 0 ? 1 : next;  // 0 means "no work" in active_epoch
}

void WakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void LeaseCard::Add(LeaseId id, const LeasePlace& place, const Shares& shares, Nanos now) {
  Lease& lease = leases_[id];
  lease.place = place;
  // An agent that died may have left it held.
  lease.epoch = lease.word().lease_word.load() >> 1;
  lease.word().lease_end_tsc.store(0);
  SetWord(lease, false);
  lease.priority = shares.priority;
  arbiter_.Add(id, shares, now);
  BoundOthersOfLatency();
  PublishWindows(now);
  Step(now);
}

void LeaseCard::Remove(LeaseId id, Nanos now) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;
  SetWord(found->second, false);
  found->second.word().window_cycle.store(0);
  found->second.word().in_flight_us.store(0);
  leases_.erase(found);
  arbiter_.Remove(id, now);
  BoundOthersOfLatency();
  PublishWindows(now);
  Step(now);
}

void LeaseCard::SetShares(LeaseId id, const Shares& shares, Nanos now) {
  if (const auto found = leases_.find(id); found != leases_.end()) {
    found->second.priority = shares.priority;
  }
  arbiter_.SetShares(id, shares, now);
  BoundOthersOfLatency();
  PublishWindows(now);
  Step(now);
}

void LeaseCard::OnWant(LeaseId id, Nanos now) {
  arbiter_.OnWant(id, now);
  Step(now);
}

void LeaseCard::OnNoWork(LeaseId id, uint32_t epoch, Nanos now) {
  const auto found = leases_.find(id);
  if (found == leases_.end() || epoch == 0) return;
  Lease& lease = found->second;
  if (epoch == lease.draining) {
    CheckDrain(id, lease, now);
  } else if (lease.held && epoch == lease.epoch && !HasWork(lease, epoch)) {
    Step(now);  // perhaps it is over by time, which is no idleness
    if (lease.held && epoch == lease.epoch) Park(id, lease, now);
  }
  Step(now);
}

void LeaseCard::OnProcessLeft(LeaseId id, Nanos now) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;
  Lease& lease = found->second;
  if (lease.place.processes->empty()) arbiter_.OnAbsent(id, now);
  CheckDrain(id, lease, now);
  if (lease.held && lease.claimed && !HasWork(lease, lease.epoch)) Park(id, lease, now);
  Step(now);
}

// Work in flight can't be called back: beside a latency tenant the others keep little of it.
void LeaseCard::BoundOthersOfLatency() {
  const bool latency = std::any_of(leases_.begin(), leases_.end(), [](const auto& entry) {
    return entry.second.priority == Priority::kLatency;
  });
  for (const auto& [id, lease] : leases_) {
    const bool bound = latency && lease.priority != Priority::kLatency;
    lease.word().in_flight_us.store(bound ? kInFlightBesideLatencyUs : 0);
  }
}

uint64_t LeaseCard::LaunchesOf(const Lease& lease) const {
  uint64_t sum = 0;
  for (const auto& [slot, send] : *lease.place.processes) {
    sum += lease.place.account->processes[slot].gpus[lease.place.page_gpu].launches.load();
  }
  return sum;
}

void LeaseCard::LookTogether(Nanos now) {
  if (now < probe_.next_look()) return;
  OverlapProbe::Progress progress;
  for (const auto& [id, lease] : leases_) progress[id] = LaunchesOf(lease);
  const bool allowed = arbiter_.MayBeTogether() && (arbiter_.together() || Backlogged() < 2);
  arbiter_.SetTogether(probe_.Look(progress, allowed, now), now);
}

// Tenants whose turns end with much still in flight: two of them want all of the card, and trying
// them together would cost them time for nothing.
size_t LeaseCard::Backlogged() const {
  return static_cast<size_t>(std::count_if(leases_.begin(), leases_.end(), [&](const auto& entry) {
    const bool busy = arbiter_.Waits(entry.first) || arbiter_.Uses(entry.first);
    return busy && entry.second.usual_drain > kBacklog;
  }));
}

// Says in the pages that somebody looks after the leases, as long as a launch waits for one.
void LeaseCard::Beat(Nanos now) {
  bool waits = false;
  for (const auto& [id, lease] : leases_) waits |= arbiter_.Waits(id);
  next_beat_ = waits ? now + kBeatEvery : Arbiter::kOpenEnd;
  if (!waits) return;
  const uint64_t tsc = ReadTsc();
  for (const auto& [id, lease] : leases_) lease.place.limits->heartbeat_tsc.store(tsc);
}

void LeaseCard::OnTimer(Nanos now) {
  LookTogether(now);
  for (auto& [id, lease] : leases_) {
    if (now < lease.look_again) continue;
    lease.look_again = Arbiter::kOpenEnd;
    LookForDrain(id, lease, now);
    CheckHeld(id, lease, now);
  }
  if (const Nanos ahead = WakeAheadOfPeriod(now); now >= ahead) {
    woken_for_ = arbiter_.NextTimer(now);
    for (auto& [id, lease] : leases_) {
      if (arbiter_.Waits(id) && !lease.held) WakeAhead(lease);
    }
  }
  Step(now);
}

Nanos LeaseCard::NextTimer(Nanos now) const {
  Nanos next =
      std::min({arbiter_.NextTimer(now), probe_.next_look(), WakeAheadOfPeriod(now), next_beat_});
  for (const auto& [id, lease] : leases_) next = std::min(next, lease.look_again);
  return next;
}

Arbiter::View LeaseCard::Look(LeaseId id, Nanos now) {
  const auto found = leases_.find(id);
  if (found != leases_.end() && found->second.held && HasWork(found->second, found->second.epoch)) {
    arbiter_.OnActive(id, now);
  }
  return arbiter_.Look(id, now);
}

void LeaseCard::EndAll() {
  for (auto& [id, lease] : leases_) SetWord(lease, false);
}

bool LeaseCard::HasWork(const Lease& lease, uint32_t epoch) {
  const auto works = [&](const auto& process) {
    const ProcessSlot& slot = lease.place.account->processes[process.first];
    return slot.gpus[lease.place.page_gpu].active_epoch.load() == epoch;
  };
  return std::any_of(lease.place.processes->begin(), lease.place.processes->end(), works);
}

bool LeaseCard::HasBlocked(const Lease& lease) {
  const auto blocked = [&](const auto& process) {
    const ProcessSlot& slot = lease.place.account->processes[process.first];
    return slot.gpus[lease.place.page_gpu].blocked.load() != 0;
  };
  return std::any_of(lease.place.processes->begin(), lease.place.processes->end(), blocked);
}

void LeaseCard::SetWord(Lease& lease, bool held) {
  lease.epoch = NextEpoch(lease.epoch);
  lease.held = held;
  lease.word().lease_word.store((lease.epoch << 1) | (held ? 1U : 0U));
  WakeAll(&lease.word().lease_word);
}

uint64_t LeaseCard::DeadlineTsc(Nanos deadline) const {
  if (deadline == Arbiter::kOpenEnd) return UINT64_MAX;
  const uint64_t tsc = ReadTsc();
  return tsc + NanosToTicks(deadline - MonotonicNow(), tsc_per_second_);
}

// Lets the arbiter decide until it has nothing more to say. Each round ends or grants a lease, and
// a lease that was just granted is never ended in the same instant: the bound only guards.
void LeaseCard::Step(Nanos now) {
  for (size_t round = 0; round < 2 * leases_.size() + 2; ++round) {
    const std::vector<Arbiter::Action> actions = arbiter_.Decide(now);
    if (actions.empty()) break;
    for (const auto& action : actions) Apply(action, now);
  }
  if (arbiter_.Busy() >= 2) probe_.Arm(now);
  if (next_beat_ == Arbiter::kOpenEnd || now >= next_beat_) Beat(now);
}

void LeaseCard::Apply(const Arbiter::Action& action, Nanos now) {
  const auto found = leases_.find(action.tenant);
  if (found == leases_.end()) return;
  Lease& lease = found->second;
  switch (action.kind) {
    case Arbiter::Action::Kind::kGrant:
      Grant(lease, action.deadline, now);
      break;
    case Arbiter::Action::Kind::kExtend:
      Extend(lease, action.deadline);
      break;
    case Arbiter::Action::Kind::kEnd:
      End(lease, now);
      CheckDrain(action.tenant, lease, now);
      break;
  }
}

void LeaseCard::Grant(Lease& lease, Nanos deadline, Nanos now) {
  lease.draining = 0;  // a straggler's old epoch is part of this lease from now on
  lease.claimed = false;
  lease.granted = now;
  lease.look_again = now + kClaimWithin;
  lease.word().lease_end_tsc.store(DeadlineTsc(deadline));
  SetWord(lease, true);
}

void LeaseCard::Extend(Lease& lease, Nanos deadline) {
  lease.word().lease_end_tsc.store(DeadlineTsc(deadline));
  // Threads that saw the old end wait on a word that does not change.
  WakeAll(&lease.word().lease_word);
}

void LeaseCard::End(Lease& lease, Nanos now) {
  const uint32_t epoch = lease.epoch;
  // Sequentially consistent with the limiters, which set active_epoch and then read this word: who
  // got in before is seen by CheckDrain, who comes later sees that the lease is gone.
  SetWord(lease, false);
  lease.draining = epoch;
  lease.drain_since = now;
  lease.looks = 0;
  wire::Notice notice;
  notice.gpu = lease.place.page_gpu;
  notice.epoch = epoch;
  for (const auto& [slot, send] : *lease.place.processes) {
    if (send) send(notice);
  }
}

// When the work of the ended lease should be done, by what its processes say; 0 = they say nothing.
Nanos LeaseCard::ExpectedDrain(const Lease& lease, Nanos now) const {
  const uint64_t tsc = ReadTsc();
  uint64_t last = 0;
  for (const auto& [slot, send] : *lease.place.processes) {
    const ProcessSlot& process = lease.place.account->processes[slot];
    if (process.gpus[lease.place.page_gpu].active_epoch.load() != lease.draining) continue;
    last = std::max(last, process.drain_tsc.load(std::memory_order_relaxed));
  }
  // An old one, or nonsense.
  if (last <= tsc || last - tsc > tsc_per_second_ / 10) return 0;
  return now + static_cast<Nanos>(static_cast<double>(last - tsc) * 1e9 /
                                  static_cast<double>(tsc_per_second_));
}

void LeaseCard::WakeAhead(Lease& lease) const {
  lease.word().soon_tsc.store(ReadTsc() + NanosToTicks(kSoon, tsc_per_second_));
  WakeAll(&lease.word().lease_word);
}

// A `fixed` tenant that waits for its next period on an idle card is woken ahead of it.
Nanos LeaseCard::WakeAheadOfPeriod(Nanos now) const {
  const Nanos timer = arbiter_.NextTimer(now);
  if (timer == Arbiter::kOpenEnd || timer == woken_for_) return Arbiter::kOpenEnd;
  const bool idle = std::none_of(leases_.begin(), leases_.end(), [](const auto& entry) {
    return entry.second.held || entry.second.draining != 0;
  });
  return idle ? timer - kWakeAhead : Arbiter::kOpenEnd;
}

void LeaseCard::LookForDrain(LeaseId id, Lease& lease, Nanos now) {
  if (lease.draining == 0) return;
  const Nanos expected = ExpectedDrain(lease, now);
  if (expected > now + kWakeAhead + kLookAhead) {
    lease.look_again = std::min(expected - kWakeAhead, now + kHintEvery);
    return;
  }
  if (lease.looks++ == 0) {
    if (const auto next = arbiter_.Upcoming(now); next && *next != id) {
      WakeAhead(leases_.at(*next));
    }
    if (expected > now + 2 * kLookAhead) {
      lease.look_again = expected - kLookAhead;
      return;
    }
  }
  for (const Nanos until = now + kSpin; HasWork(lease, lease.draining) && MonotonicNow() < until;) {
    __builtin_ia32_pause();
  }
  CheckDrain(id, lease, MonotonicNow());
}

void LeaseCard::CheckDrain(LeaseId id, Lease& lease, Nanos now) {
  if (lease.draining == 0) return;
  if (HasWork(lease, lease.draining)) {
    const bool straggles = now - lease.drain_since > kStragglerCheck;
    lease.look_again = now + (straggles                  ? kStragglerCheck
                              : lease.looks == 0         ? kFirstHint
                              : lease.looks < kMostLooks ? kLookEvery
                                                         : kDrainCheck);
    return;
  }
  const bool alone = std::count_if(leases_.begin(), leases_.end(), [](const auto& entry) {
                       return entry.second.draining != 0;
                     }) == 1;
  if (alone) lease.usual_drain = (3 * lease.usual_drain + now - lease.drain_since) / 4;
  lease.draining = 0;
  lease.look_again = Arbiter::kOpenEnd;
  arbiter_.OnDrained(id, now);
  // Threads that already wait have nothing more to say.
  if (HasBlocked(lease)) arbiter_.OnWant(id, now);
}

void LeaseCard::Park(LeaseId id, Lease& lease, Nanos now) {
  arbiter_.OnIdle(id, now);
  lease.look_again = now + kParkedCheck;
}

// A held lease that waits to be taken up, for the first time or again. While it works a message
// will tell when it stops, and nobody has to look.
void LeaseCard::CheckHeld(LeaseId id, Lease& lease, Nanos now) {
  if (!lease.held) return;
  if (!HasWork(lease, lease.epoch)) {
    const bool comes = !lease.claimed && HasBlocked(lease) && now < lease.granted + kClaimByBlocked;
    if (comes)
      lease.look_again = now + kClaimWithin;
    else
      Park(id, lease, now);
    return;
  }
  lease.claimed = true;
  lease.look_again = Arbiter::kOpenEnd;
  arbiter_.OnActive(id, now);
}

void LeaseCard::PublishWindows(Nanos now) {
  std::vector<WindowShare> shares;
  for (const auto& [id, lease] : leases_) {
    const Arbiter::View view = arbiter_.Look(id, now);
    shares.push_back({view.weight, view.shares.cores, view.shares.policy});
    lease.word().window_cycle.store(0);  // no window is better than two that overlap
  }
  const std::vector<TimeWindow> windows = ComputeWindows(shares);
  size_t next = 0;
  for (const auto& [id, lease] : leases_) {
    GpuLimits& gpu = lease.word();
    gpu.window_origin.store(0);
    gpu.window_begin.store(NanosToTicks(windows[next].begin, tsc_per_second_));
    gpu.window_width.store(NanosToTicks(windows[next].width, tsc_per_second_));
    ++next;
  }
  for (const auto& [id, lease] : leases_) {
    lease.word().window_cycle.store(NanosToTicks(kWindowCycle, tsc_per_second_));
  }
}

}  // namespace krux::agent
