// The part of Arbiter that decides: who is next, for how long, and when a holder must go. The rest,
// events and accounts, is in arbiter.cc.
#include <algorithm>
#include <cmath>

#include "agent/arbiter.h"

namespace krux::agent {
namespace {

// Part of max_gap that a cycle is planned for, and that a turn which pays debts may have; the rest
// is for drains that are longer than usual and for messages.
constexpr double kGapPlanned = 0.8;
constexpr double kLongestTurn = 0.85;
// A turn that would be longer by more than this pays a debt that shorter ones could not.
constexpr double kDebtTurns = 1.5;
// Who is not more than so many leads ahead has its turn in order; who is, works off a debt.
constexpr double kModestLeads = 2;
constexpr double kMostNanos = 1e17;  // three years: far below an overflow

Nanos ToNanos(double value) {
  return static_cast<Nanos>(std::clamp(value, -kMostNanos, kMostNanos));
}

}  // namespace

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
    if (&tenant == &holder || ClassOf(tenant) != ClassOf(holder) || !Competes(tenant, now))
      continue;
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

// When no launch of the holder's turn, if it began now, may begin any more.
Nanos Arbiter::Turn(const Tenant& holder, Nanos now) const {
  const Field field = FieldOf(holder, now);
  if (field.others == 0) return kOpenEnd;
  Nanos turn = ToNanos(holder.weight * (field.first_rank - Rank(holder) + Lead(field)));
  // Others that owe little are let in within max_gap and get a shorter turn; who owes much waits.
  const auto longest = ToNanos(kLongestTurn * static_cast<double>(options_.max_gap));
  if (static_cast<double>(turn) <= kDebtTurns * static_cast<double>(longest))
    turn = std::min(turn, longest);
  turn = std::max(turn, options_.min_slice);
  return now + std::max({turn - holder.usual_drain, turn / 4, options_.min_slice / 2});
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

void Arbiter::End(TenantId id, Nanos now, std::vector<Action>* actions) {
  Tenant& tenant = tenants_.at(id);
  tenant.lease = Lease::kEnding;
  tenant.ended = now;
  if (holder_ == id) holder_.reset();
  actions->push_back({Action::Kind::kEnd, id, now});
}

void Arbiter::GiveUpWaiting(Nanos now) {
  for (auto& [id, tenant] : tenants_) {
    if (tenant.lease == Lease::kEnding && now - tenant.ended >= options_.grace) {
      tenant.lease = Lease::kStraggling;
    }
  }
}

bool Arbiter::AnyoneEnding() const {
  return std::any_of(tenants_.begin(), tenants_.end(),
                     [](const auto& entry) { return entry.second.lease == Lease::kEnding; });
}

void Arbiter::StepHolder(Nanos now, std::vector<Action>* actions) {
  Tenant& holder = *Holder();
  PlanTurn(holder, now);
  if (MustEnd(holder, now)) return End(*holder_, now, actions);
  // Nobody who waits may run: the turn goes on, whatever was planned.
  if (now >= holder.turn_end) holder.turn_end = kOpenEnd;
  const Nanos end = LeaseEnd(holder, now);
  // The budget shrinks as time goes on, so its end stays; only true changes are told.
  if (end != holder.end) {
    holder.end = end;
    actions->push_back({Action::Kind::kExtend, *holder_, end});
  }
}

void Arbiter::StepTogether(Nanos now, std::vector<Action>* actions) {
  for (auto& [id, tenant] : tenants_) {
    if (tenant.lease == Lease::kHeld) {
      if (tenant.parked && now - tenant.parked_since >= options_.max_parked) {
        End(id, now, actions);
      } else if (tenant.end != kOpenEnd) {
        tenant.turn_end = tenant.end = kOpenEnd;
        actions->push_back({Action::Kind::kExtend, id, kOpenEnd});
      }
    } else if (Eligible(tenant)) {
      Grant(id, now, actions);
    }
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
  tenant.lease = Lease::kHeld;
  StopWaiting(tenant, now);
  ++tenant.leases;
  tenant.parked = false;
  tenant.lingers_until = 0;
  tenant.begin = now;
  if (together_) {
    tenant.turn_end = tenant.end = kOpenEnd;
  } else {
    holder_ = id;
    tenant.turn_end = Turn(tenant, now);
    tenant.end = LeaseEnd(tenant, now);
  }
  actions->push_back({Action::Kind::kGrant, id, tenant.end});
}

std::vector<Arbiter::Action> Arbiter::Decide(Nanos now) {
  CatchUp(now);
  std::vector<Action> actions;
  GiveUpWaiting(now);
  if (together_ && !MayBeTogether()) SetTogether(false, now);
  if (together_) {
    StepTogether(now, &actions);
  } else {
    for (const auto& [id, tenant] : tenants_) {
      // Left from a time together.
      if (tenant.lease == Lease::kHeld && holder_ != id) End(id, now, &actions);
    }
    if (holder_) StepHolder(now, &actions);
    if (!holder_ && !AnyoneEnding()) {
      if (const auto next = Next(now)) Grant(*next, now, &actions);
    }
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
    if (tenant.lease == Lease::kEnding) next = std::min(next, tenant.ended + options_.grace);
    if (tenant.lease != Lease::kHeld) continue;
    next = std::min(next, tenant.parked ? tenant.parked_since + options_.max_parked : tenant.end);
  }
  if (ceiling) next = std::min(next, (period_ + 1) * options_.ceiling_period);
  return next;
}

}  // namespace krux::agent
