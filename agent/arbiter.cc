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

void Arbiter::StopWaiting(Tenant& tenant, Nanos now) {
  if (tenant.wants) tenant.waited += now - tenant.wants_since;
  tenant.wants = false;
}

void Arbiter::OnIdle(TenantId id, Nanos now) {
  CatchUp(now);
  Tenant* tenant = Find(id);
  if (tenant == nullptr || tenant->lease != Lease::kHeld) return;
  if (!tenant->parked) tenant->parked_since = now;
  tenant->parked = true;
  StopWaiting(*tenant, now);
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
  tenant->lease = Lease::kNone;
  if (!tenant->parked) tenant->usual_drain = (3 * tenant->usual_drain + now - tenant->ended) / 4;
  if (!tenant->parked && !tenant->wants) tenant->lingers_until = now + kLinger;
  tenant->parked = false;
}

void Arbiter::OnAbsent(TenantId id, Nanos now) {
  OnIdle(id, now);
  Tenant* tenant = Find(id);
  if (tenant == nullptr) return;
  StopWaiting(*tenant, now);
  tenant->lingers_until = 0;
}

bool Arbiter::Runs(const Tenant& tenant) {
  return (tenant.lease == Lease::kHeld && !tenant.parked) || tenant.lease == Lease::kEnding;
}

void Arbiter::Charge(Tenant& tenant, double part, Nanos now) {
  const Nanos from = tenant.charged_until;
  tenant.charged_until = now;
  if (tenant.lease == Lease::kNone || tenant.parked || now <= from) return;
  const auto span = static_cast<Nanos>(part * static_cast<double>(now - from));
  tenant.used += span;
  tenant.meter.Add(now - span, now);
  tenant.virtual_time += static_cast<double>(span) / tenant.weight;
  if (HasCeiling(tenant)) tenant.budget = std::max(tenant.budget - span, -options_.max_debt);
  const double most =
      virtual_clock_[ClassOf(tenant)] + static_cast<double>(options_.max_debt) / tenant.weight;
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
    const Nanos times =
        std::min<Nanos>(periods, 1 + (most + options_.max_debt) / std::max<Nanos>(fill, 1));
    tenant.budget = std::max(tenant.budget, std::min(tenant.budget + times * fill, most));
  }
}

void Arbiter::CatchUp(Nanos now) {
  const auto running = std::count_if(tenants_.begin(), tenants_.end(),
                                     [](auto& entry) { return Runs(entry.second); });
  const double part = 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(running, 1));
  for (auto& [id, tenant] : tenants_) Charge(tenant, Runs(tenant) ? part : 1, now);
  FillBudgets(now);
  double slowest[2] = {INFINITY, INFINITY};
  for (const auto& [id, tenant] : tenants_) {
    if (!Runs(tenant) && !Eligible(tenant)) continue;
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

void Arbiter::SetTogether(bool together, Nanos now) {
  if (together == together_) return;
  CatchUp(now);
  together_ = together;
  holder_.reset();
  if (together) {
    together_since_ = now;
    return;
  }
  if (now - together_since_ <= options_.short_together) return;
  // Nobody lost by it, so nobody owes anything.
  double furthest = 0;
  for (const auto& [id, tenant] : tenants_) {
    if (Runs(tenant)) furthest = std::max(furthest, tenant.virtual_time);
  }
  for (auto& [id, tenant] : tenants_) {
    if (Runs(tenant)) tenant.virtual_time = furthest;
  }
}

bool Arbiter::MustTakeTurns(const Tenant& tenant) {
  return HasCeiling(tenant) || ClassOf(tenant) == kLeftOver ||
         tenant.shares.priority == Priority::kLatency;
}

bool Arbiter::MayBeTogether() const {
  return std::none_of(tenants_.begin(), tenants_.end(), [](const auto& entry) {
    const Tenant& tenant = entry.second;
    return MustTakeTurns(tenant) && (tenant.wants || Runs(tenant));
  });
}

size_t Arbiter::Busy() const {
  return static_cast<size_t>(std::count_if(tenants_.begin(), tenants_.end(), [](auto& entry) {
    return entry.second.wants || Runs(entry.second);
  }));
}

bool Arbiter::Uses(TenantId id) const {
  const auto found = tenants_.find(id);
  return found != tenants_.end() && found->second.lease != Lease::kNone;
}

bool Arbiter::Waits(TenantId id) const {
  const auto found = tenants_.find(id);
  return found != tenants_.end() && found->second.wants;
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
  view.waited = tenant->waited + view.waiting_for;
  view.leases = tenant->leases;
  view.used = tenant->used;
  view.share_1s = tenant->meter.LastSecond(now);
  view.share_60s = tenant->meter.LastMinute(now);
  return view;
}

}  // namespace krux::agent
