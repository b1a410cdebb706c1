#include "agent/arbiter.h"

#include <algorithm>
#include <cmath>

namespace krux::agent {
namespace {

constexpr double kSmallestWeight = 0.0005;
// Tenants without cores share what is not promised, but not more than this in all, and always a
// little, so that they never starve beside promises that add up to 100.
constexpr double kMostForUnpromised = 0.05;
constexpr double kLeastForUnpromised = 0.005;
// A want this close to the end of a lease means the next lease; earlier ones crossed the grant.
constexpr Nanos kWantBeforeEnd = 1 * kMillisecond;
// How soon a tenant whose lease was taken back asks again, if it still has work.
constexpr Nanos kLinger = 5 * kMillisecond;
// Part of max_gap that is planned; the rest is for drains and for messages.
constexpr double kGapPlanned = 0.8;
// Who is not more than so many leads ahead has its turn in order; who is, works off a debt.
constexpr double kModestLeads = 2;

Nanos ToNanos(double value) {
  constexpr double kMost = 1e17;  // three years: far below an overflow
  return static_cast<Nanos>(std::clamp(value, -kMost, kMost));
}

}  // namespace

Arbiter::Class Arbiter::ClassOf(const Tenant& tenant) {
  return tenant.shares.policy == ComputePolicy::kNone ? kLeftOver : kGuaranteed;
}

bool Arbiter::HasCeiling(const Tenant& tenant) {
  return tenant.shares.policy == ComputePolicy::kFixed && tenant.shares.cores < 100;
}

Arbiter::Tenant* Arbiter::Find(TenantId tenant) {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? nullptr : &found->second;
}

void Arbiter::ComputeWeights() {
  double promised = 0;
  double unpromised_memory = 0;
  size_t unpromised = 0;
  for (const auto& [id, tenant] : tenants_) {
    if (ClassOf(tenant) == kLeftOver) continue;
    promised += tenant.shares.cores * 0.01;
    if (tenant.shares.cores != 0) continue;
    ++unpromised;
    unpromised_memory += static_cast<double>(tenant.shares.memory_bytes);
  }
  const double rest = std::clamp(1 - promised, kLeastForUnpromised, kMostForUnpromised);
  for (auto& [id, tenant] : tenants_) {
    double weight = tenant.shares.cores * 0.01;
    if (ClassOf(tenant) == kLeftOver) {
      weight = 1;
    } else if (tenant.shares.cores == 0) {
      weight = unpromised_memory > 0
                   ? rest * static_cast<double>(tenant.shares.memory_bytes) / unpromised_memory
                   : rest / static_cast<double>(unpromised);
    }
    tenant.weight = std::max(weight, kSmallestWeight);
  }
}

Nanos Arbiter::PeriodBudget(const Tenant& tenant) const {
  return options_.ceiling_period * tenant.shares.cores / 100;
}

void Arbiter::Add(TenantId id, const Shares& shares, Nanos now) {
  CatchUp(now);
  Tenant tenant;
  tenant.shares = shares;
  tenant.charged_until = now;
  tenant.meter = UsageMeter(now);
  tenant.budget = PeriodBudget(tenant);
  tenants_[id] = tenant;
  tenants_[id].virtual_time = virtual_clock_[ClassOf(tenant)];
  ComputeWeights();
}

void Arbiter::Remove(TenantId id, Nanos now) {
  CatchUp(now);
  tenants_.erase(id);
  if (holder_ == id) holder_.reset();
  ComputeWeights();
}

void Arbiter::SetShares(TenantId id, const Shares& shares, Nanos now) {
  CatchUp(now);
  Tenant* tenant = Find(id);
  if (tenant == nullptr) return;
  const Class old_class = ClassOf(*tenant);
  tenant->shares = shares;
  // The two queues have clocks of their own: who changes over comes in level.
  if (ClassOf(*tenant) != old_class) tenant->virtual_time = virtual_clock_[ClassOf(*tenant)];
  tenant->budget = std::min(tenant->budget, PeriodBudget(*tenant));
  ComputeWeights();
  if (Tenant* holder = Holder(); holder != nullptr && holder->lease == Lease::kHeld) {
    holder->turn_end = std::min(holder->turn_end, Turn(*holder, now));
  }
}

void Arbiter::OnWant(TenantId id, Nanos now) {
  CatchUp(now);
  Tenant* tenant = Find(id);
  if (tenant == nullptr || tenant->wants) return;
  if (tenant->lease == Lease::kHeld) {
    tenant->parked = false;
    if (tenant->end > now + kWantBeforeEnd) return;
  }
  Join(*tenant, now);
}

// Level with the others, unless the tenant was in the queue all the time but for a message's way.
void Arbiter::Join(Tenant& tenant, Nanos now) {
  tenant.wants = true;
  tenant.wants_since = tenant.queued_since = now;
  const bool stayed = tenant.lease != Lease::kNone || now < tenant.lingers_until;
  tenant.lingers_until = 0;
  if (stayed) return;
  tenant.fresh = true;
  tenant.queued_since = now - options_.max_gap / 2;
  tenant.virtual_time = std::max(tenant.virtual_time, virtual_clock_[ClassOf(tenant)]);
}

void Arbiter::OnIdle(TenantId id, Nanos now) {
  CatchUp(now);
  Tenant* tenant = Find(id);
  if (tenant == nullptr || tenant->lease != Lease::kHeld) return;
  if (!tenant->parked) tenant->parked_since = now;
  tenant->parked = true;
  tenant->wants = false;
}

void Arbiter::OnActive(TenantId id, Nanos now) {
  CatchUp(now);
  if (Tenant* tenant = Find(id); tenant != nullptr) tenant->parked = false;
}

void Arbiter::OnDrained(TenantId id, Nanos now) {
  CatchUp(now);
  Tenant* tenant = Find(id);
  if (tenant == nullptr) return;
  if (tenant->lease != Lease::kEnding && tenant->lease != Lease::kStraggling) return;
  if (tenant->lease == Lease::kEnding) holder_.reset();
  tenant->lease = Lease::kNone;
  if (!tenant->parked && !tenant->wants) tenant->lingers_until = now + kLinger;
  tenant->parked = false;
}

void Arbiter::OnAbsent(TenantId id, Nanos now) {
  OnIdle(id, now);
  Tenant* tenant = Find(id);
  if (tenant == nullptr) return;
  tenant->wants = false;
  tenant->lingers_until = 0;
}

void Arbiter::Charge(Tenant& tenant, Nanos now) {
  const Nanos from = tenant.charged_until;
  tenant.charged_until = now;
  if (tenant.lease == Lease::kNone || tenant.parked || now <= from) return;
  const Nanos span = now - from;
  tenant.used += span;
  tenant.meter.Add(from, now);
  tenant.virtual_time += static_cast<double>(span) / tenant.weight;
  if (HasCeiling(tenant)) tenant.budget = std::max(tenant.budget - span, -options_.max_debt);
  const double most = virtual_clock_[ClassOf(tenant)] +
                      static_cast<double>(options_.max_debt) / tenant.weight;
  // A lone holder moves the clock itself, so this bounds only who is ahead of others.
  if (tenant.lease == Lease::kStraggling) tenant.virtual_time = std::min(tenant.virtual_time, most);
}

// Who waits or runs may carry a period's budget over, so that turns of others cost it nothing; who
// is idle hoards nothing.
void Arbiter::FillBudgets(Nanos now) {
  const Nanos period = now / options_.ceiling_period;
  const Nanos periods = period - period_;
  period_ = period;
  if (periods <= 0) return;
  for (auto& [id, tenant] : tenants_) {
    if (!HasCeiling(tenant)) continue;
    const Nanos fill = PeriodBudget(tenant);
    const bool busy = tenant.wants || tenant.lease != Lease::kNone || now < tenant.lingers_until;
    const Nanos most = busy ? 2 * fill + options_.min_slice : std::max(fill, options_.min_slice);
    const Nanos times = std::min<Nanos>(periods, 1 + (most + options_.max_debt) / std::max<Nanos>(fill, 1));
    tenant.budget = std::max(tenant.budget, std::min(tenant.budget + times * fill, most));
  }
}

void Arbiter::CatchUp(Nanos now) {
  for (auto& [id, tenant] : tenants_) Charge(tenant, now);
  FillBudgets(now);
  double slowest[2] = {INFINITY, INFINITY};
  for (const auto& [id, tenant] : tenants_) {
    const bool runs = (tenant.lease == Lease::kHeld && !tenant.parked) || tenant.lease == Lease::kEnding;
    if (!runs && !Eligible(tenant)) continue;
    slowest[ClassOf(tenant)] = std::min(slowest[ClassOf(tenant)], tenant.virtual_time);
  }
  for (const Class of : {kGuaranteed, kLeftOver}) {
    if (std::isfinite(slowest[of])) virtual_clock_[of] = std::max(virtual_clock_[of], slowest[of]);
  }
  for (auto& [id, tenant] : tenants_) {
    // Who waits for its own ceiling gets no credit for that.
    if (!tenant.wants || Eligible(tenant)) continue;
    tenant.virtual_time = std::max(tenant.virtual_time, virtual_clock_[ClassOf(tenant)]);
    tenant.fresh = true;
  }
}

bool Arbiter::Eligible(const Tenant& tenant) const {
  if (!tenant.wants || tenant.lease == Lease::kHeld || tenant.lease == Lease::kEnding) return false;
  return !HasCeiling(tenant) || tenant.budget >= options_.min_slice;
}

bool Arbiter::Competes(const Tenant& tenant, Nanos now) const {
  if (Eligible(tenant)) return true;
  if (tenant.lease != Lease::kNone || now >= tenant.lingers_until) return false;
  return !HasCeiling(tenant) || tenant.budget >= options_.min_slice;
}

bool Arbiter::AnyoneEligible(Class worst) const {
  return std::any_of(tenants_.begin(), tenants_.end(), [&](const auto& entry) {
    return ClassOf(entry.second) <= worst && Eligible(entry.second);
  });
}

bool Arbiter::Waits(TenantId id) const {
  const auto found = tenants_.find(id);
  return found != tenants_.end() && found->second.wants;
}

// Place in the queue: the lowest comes next. Priority is a head start, not a right to more.
double Arbiter::Rank(const Tenant& tenant) const {
  const auto head_start = static_cast<double>(options_.max_gap);
  if (tenant.shares.priority == Priority::kLatency) return tenant.virtual_time - head_start;
  if (tenant.shares.priority == Priority::kBatch) return tenant.virtual_time + head_start;
  return tenant.virtual_time;
}

Arbiter::Field Arbiter::FieldOf(const Tenant& holder, Nanos now) const {
  Field field;
  field.weight = holder.weight;
  double smallest = holder.weight;
  field.first_rank = INFINITY;
  for (const auto& [id, tenant] : tenants_) {
    if (&tenant == &holder || ClassOf(tenant) != ClassOf(holder) || !Competes(tenant, now)) continue;
    ++field.others;
    field.weight += tenant.weight;
    smallest = std::min(smallest, tenant.weight);
    field.latency |= tenant.shares.priority == Priority::kLatency;
    field.first_rank = std::min(field.first_rank, Rank(tenant));
  }
  field.smallest = smallest / field.weight;
  return field;
}

// How far, in virtual time, a turn takes its tenant beyond the next one. The cycle gives the
// smallest share a slice of small_slice, unless that would let somebody wait longer than max_gap.
double Arbiter::Lead(const Field& field) const {
  const double longest = kGapPlanned * static_cast<double>(options_.max_gap) / (1 - field.smallest);
  double cycle = std::min(longest, static_cast<double>(options_.small_slice) / field.smallest);
  if (field.latency) cycle = std::min(cycle, static_cast<double>(options_.latency_cycle));
  const auto others = static_cast<double>(field.others);
  return cycle * others / (others + 1) / field.weight;
}

// When the holder's turn, if it began now, would be over.
Nanos Arbiter::Turn(const Tenant& holder, Nanos now) const {
  const Field field = FieldOf(holder, now);
  if (field.others == 0) return kOpenEnd;
  const double lead = Lead(field);
  const double behind = field.first_rank - Rank(holder);
  Nanos turn = ToNanos(holder.weight * (behind + lead));
  // Others that owe little are let in within max_gap and get a shorter turn; who owes much waits.
  if (behind <= kModestLeads * lead) turn = std::min(turn, ToNanos(kGapPlanned * static_cast<double>(options_.max_gap)));
  return now + std::max(turn, options_.min_slice);
}

Nanos Arbiter::LeaseEnd(const Tenant& holder, Nanos now) const {
  if (!HasCeiling(holder)) return holder.turn_end;
  return std::min(holder.turn_end, now + std::max<Nanos>(holder.budget, 0));
}

bool Arbiter::Preempts(const Tenant& waiter, const Tenant& holder) const {
  if (!Eligible(waiter)) return false;
  if (ClassOf(waiter) != ClassOf(holder)) return ClassOf(waiter) == kGuaranteed;
  return waiter.shares.priority == Priority::kLatency &&
         holder.shares.priority != Priority::kLatency && Rank(waiter) < Rank(holder);
}

bool Arbiter::IsPreempted(const Tenant& holder) const {
  return std::any_of(tenants_.begin(), tenants_.end(),
                     [&](const auto& entry) { return Preempts(entry.second, holder); });
}

bool Arbiter::MustEnd(const Tenant& holder, Nanos now) const {
  if (holder.parked) {
    return HasCeiling(holder) || AnyoneEligible(kLeftOver) ||
           now - holder.parked_since >= options_.max_parked;
  }
  if (HasCeiling(holder) && holder.budget <= 0) return true;
  if (now >= holder.turn_end && AnyoneEligible(ClassOf(holder))) return true;
  return IsPreempted(holder);
}

// Fits the holder's turn to who else is there now.
void Arbiter::PlanTurn(Tenant& holder, Nanos now) {
  const Field field = FieldOf(holder, now);
  if (field.others == 0) {
    holder.turn_end = kOpenEnd;
    return;
  }
  bool newcomer = holder.turn_end == kOpenEnd;
  for (const auto& [id, tenant] : tenants_) newcomer |= tenant.fresh && Competes(tenant, now);
  if (!newcomer) return;
  const Nanos behind = ToNanos(holder.weight * std::max(field.first_rank - Rank(holder), 0.0));
  const Nanos until = std::max(holder.begin + options_.min_slice, now + behind);
  holder.turn_end = std::min(holder.turn_end, until);
}

void Arbiter::StepHolder(Nanos now, std::vector<Action>* actions) {
  Tenant& holder = *Holder();
  if (holder.lease == Lease::kEnding) {
    if (now - holder.ended < options_.grace) return;
    holder.lease = Lease::kStraggling;
    holder_.reset();
    return;
  }
  PlanTurn(holder, now);
  if (MustEnd(holder, now)) {
    holder.lease = Lease::kEnding;
    holder.ended = now;
    actions->push_back({Action::Kind::kEnd, *holder_, now});
    return;
  }
  // Nobody who waits may run: the turn goes on, whatever was planned.
  if (now >= holder.turn_end) holder.turn_end = kOpenEnd;
  const Nanos end = LeaseEnd(holder, now);
  // The budget shrinks as time goes on, so its end stays; only true changes are told.
  if (end != holder.end) {
    holder.end = end;
    actions->push_back({Action::Kind::kExtend, *holder_, end});
  }
}

// Of those that are not far ahead of the first in rank, the one that has waited longest: turns go
// round, and ranks decide how long they are.
std::optional<Arbiter::TenantId> Arbiter::Next(Nanos now) const {
  const Tenant* first = nullptr;
  for (const auto& [id, tenant] : tenants_) {
    if (!Eligible(tenant)) continue;
    if (first == nullptr || ClassOf(tenant) < ClassOf(*first) ||
        (ClassOf(tenant) == ClassOf(*first) && Rank(tenant) < Rank(*first))) {
      first = &tenant;
    }
  }
  if (first == nullptr) return std::nullopt;
  const double most = Rank(*first) + kModestLeads * Lead(FieldOf(*first, now));
  std::optional<TenantId> next;
  Nanos since = kOpenEnd;
  for (const auto& [id, tenant] : tenants_) {
    if (!Eligible(tenant) || ClassOf(tenant) != ClassOf(*first) || Rank(tenant) > most) continue;
    if (next && tenant.queued_since >= since) continue;
    if (IsPreempted(tenant)) continue;
    next = id;
    since = tenant.queued_since;
  }
  return next;
}

void Arbiter::Grant(TenantId id, Nanos now, std::vector<Action>* actions) {
  Tenant& tenant = tenants_.at(id);
  holder_ = id;
  tenant.lease = Lease::kHeld;
  tenant.wants = false;
  tenant.parked = false;
  tenant.lingers_until = 0;
  tenant.begin = now;
  tenant.turn_end = Turn(tenant, now);
  tenant.end = LeaseEnd(tenant, now);
  actions->push_back({Action::Kind::kGrant, id, tenant.end});
}

std::vector<Arbiter::Action> Arbiter::Decide(Nanos now) {
  CatchUp(now);
  std::vector<Action> actions;
  if (holder_) StepHolder(now, &actions);
  if (!holder_) {
    if (const auto next = Next(now)) Grant(*next, now, &actions);
  }
  for (auto& [id, tenant] : tenants_) {
    if (Eligible(tenant)) tenant.fresh = false;
  }
  return actions;
}

Nanos Arbiter::NextTimer(Nanos now) const {
  Nanos next = kOpenEnd;
  bool ceiling = false;
  for (const auto& [id, tenant] : tenants_) {
    if (HasCeiling(tenant)) ceiling |= tenant.wants || tenant.lease == Lease::kHeld;
    if (tenant.lingers_until > now) next = std::min(next, tenant.lingers_until);
  }
  if (ceiling) next = std::min(next, (period_ + 1) * options_.ceiling_period);
  if (!holder_) return next;
  const Tenant& holder = tenants_.at(*holder_);
  if (holder.lease == Lease::kEnding) return std::min(next, holder.ended + options_.grace);
  if (holder.parked) return std::min(next, holder.parked_since + options_.max_parked);
  return std::min(next, holder.end);
}

Arbiter::View Arbiter::Look(TenantId id, Nanos now) {
  CatchUp(now);
  View view;
  Tenant* tenant = Find(id);
  if (tenant == nullptr) return view;
  view.shares = tenant->shares;
  view.weight = tenant->weight;
  view.waiting = tenant->wants;
  view.holding = tenant->lease == Lease::kHeld || tenant->lease == Lease::kEnding;
  view.parked = tenant->parked;
  view.straggling = tenant->lease == Lease::kStraggling;
  view.waiting_for = tenant->wants ? now - tenant->wants_since : 0;
  view.used = tenant->used;
  view.share_1s = tenant->meter.LastSecond(now);
  view.share_60s = tenant->meter.LastMinute(now);
  return view;
}

}  // namespace krux::agent
