#include "sim/state/turns.h"

#include <algorithm>
#include <bit>

namespace krux::sim {
namespace {

// The next busy seat after `seat`, in a circle; `seat` itself last. REQUIRES: busy != 0.
uint32_t NextAfter(uint64_t busy, uint32_t seat) {
  const uint32_t start = (seat + 1) % kSeatsPerCard;
  const auto distance =
      static_cast<uint32_t>(std::countr_zero(std::rotr(busy, static_cast<int>(start))));
  return (start + distance) % kSeatsPerCard;
}

}  // namespace

void Turns::Join(uint32_t seat, Nanos demand_level) {
  busy |= uint64_t{1} << seat;
  demand[seat] = demand_level;
}

void Turns::Leave(uint32_t seat) { busy &= ~(uint64_t{1} << seat); }

void Turns::StartSwitch(Nanos cost) {
  owner = NextAfter(busy, owner % kSeatsPerCard);
  is_switching = true;
  phase_end = clock + cost;
}

// Decides who is on the card from `clock` on. False: nobody has work.
bool Turns::StartTurn(const TurnRules& rules) {
  if (busy == 0) return false;
  if (owner == kNobody) {  // a card that nobody has used yet: nothing to take off it
    owner = NextAfter(busy, kSeatsPerCard - 1);
    phase_end = clock + rules.slice;
  } else if (!is_switching && !IsBusy(owner)) {
    StartSwitch(rules.drain_switch);
  } else if (!is_switching && phase_end <= clock) {
    // A slice that ended while nobody waited was renewed at once.
    phase_end += ((clock - phase_end) / rules.slice + 1) * rules.slice;
  }
  return true;
}

void Turns::RunOwner(const TurnRules& rules, Nanos until, Nanos level) {
  const bool others_wait = (busy & ~(uint64_t{1} << owner)) != 0;
  const Nanos room = std::min(until, others_wait ? phase_end : kNever) - clock;
  const Nanos wanted = std::max<Nanos>(std::min(demand[owner], level) - served[owner], 0);
  const Nanos step = std::min(room, wanted);
  served[owner] += step;
  clock += step;
  ran_until[owner] = clock;
  if (served[owner] >= demand[owner]) {
    Leave(owner);
  } else if (others_wait && clock == phase_end) {
    StartSwitch(rules.preempt_switch);
  }
}

// While nobody's work ends the rotation repeats itself: whole rounds need not be walked through.
void Turns::SkipWholeCycles(const TurnRules& rules, Nanos until, uint32_t seat, Nanos level) {
  const auto tenants = std::popcount(busy);
  if (tenants < 2 || is_switching) return;
  const Nanos cycle = tenants * (rules.slice + rules.preempt_switch);
  Nanos rounds = (until - clock) / cycle - 2;
  for (uint64_t rest = busy; rest != 0 && rounds > 1; rest &= rest - 1) {
    const auto i = static_cast<uint32_t>(std::countr_zero(rest));
    const Nanos end = i == seat ? std::min(demand[i], level) : demand[i];
    rounds = std::min(rounds, (end - served[i]) / rules.slice - 2);
  }
  if (rounds <= 1) return;
  for (uint64_t rest = busy; rest != 0; rest &= rest - 1) {
    served[static_cast<size_t>(std::countr_zero(rest))] += rounds * rules.slice;
  }
  clock += rounds * cycle;
  phase_end += rounds * cycle;
}

void Turns::Run(const TurnRules& rules, Nanos until, uint32_t seat, Nanos level) {
  while (clock < until) {
    if (seat != kNobody && served[seat] >= level) return;
    if (!StartTurn(rules)) {
      clock = until;
    } else if (is_switching) {
      clock = std::min(until, phase_end);
      if (clock < phase_end) return;
      is_switching = false;
      phase_end = clock + rules.slice;
    } else {
      SkipWholeCycles(rules, until, seat, level);
      RunOwner(rules, until, owner == seat ? level : kNever);
    }
  }
}

Nanos Turns::AdvanceToService(const TurnRules& rules, Nanos until, uint32_t seat, Nanos level) {
  Run(rules, until, seat, level);
  return served[seat] >= level ? clock : kNever;
}

}  // namespace krux::sim
