// How a card's time is shared between processes: a pure model, driven by the times that it is
// given.
//
// A real card keeps the contexts of different processes apart in time. One context is loaded; it
// runs until it has no work, or until its slice is over while others wait; then the next one in
// order is loaded, which takes time that nobody gets. Three figures say it all (TurnRules),
// measured on a real card; bench/sim_time compares what comes out with that card:
//   slice           how long a context may run while others wait
//   drain_switch    loading the next context when the last one has no work left
//   preempt_switch  the same when a context is stopped in the middle of its work
//
// `Served` is the time that a seat had the card, in nanoseconds since the card exists. A seat's
// `demand` is the level of `served` at which its work ends, as far as its process has said so
// (kUnknownDemand: it will say so by leaving). So anybody can work out, from one copy of a Turns
// and the demands, what happens on the card until some time, if nobody joins or leaves before.
//
// Values only: no clock, no shared memory, no threads. The shared form is sim/state/share.h.
#ifndef KRUX_SIM_STATE_TURNS_H_
#define KRUX_SIM_STATE_TURNS_H_

#include <array>
#include <cstdint>
#include <limits>

#include "common/clock.h"

namespace krux::sim {

constexpr uint32_t kSeatsPerCard = 64;  // processes that use one card at a time
constexpr uint32_t kNobody = kSeatsPerCard;
constexpr Nanos kNever = std::numeric_limits<Nanos>::max();
constexpr Nanos kUnknownDemand = kNever;

struct TurnRules {
  Nanos slice = 0;
  Nanos drain_switch = 0;
  Nanos preempt_switch = 0;
};

struct Turns {
  Nanos clock = 0;           // everything is accounted for until then
  uint64_t busy = 0;         // bit i: seat i has work
  uint32_t owner = kNobody;  // whose context is loaded, or is being loaded
  bool is_switching = false;
  Nanos phase_end = 0;  // of the switch, or of the owner's slice
  std::array<Nanos, kSeatsPerCard> served{};
  std::array<Nanos, kSeatsPerCard> ran_until{};  // when the seat last had the card
  std::array<Nanos, kSeatsPerCard> demand{};

  // A seat gets work as of `clock` (the owner of the state brings it up to date first), or has none
  // any more.
  void Join(uint32_t seat, Nanos demand_level);
  void Leave(uint32_t seat);
  bool IsBusy(uint32_t seat) const { return (busy >> seat & 1) != 0; }

  // Lets time pass until `until`; seats whose demand is served leave on the way.
  void AdvanceTo(const TurnRules& rules, Nanos until) { Run(rules, until, kNobody, 0); }
  // Lets time pass until the seat has been served up to `level`, at most until `until`. Returns the
  // time, or kNever when that comes first.
  Nanos AdvanceToService(const TurnRules& rules, Nanos until, uint32_t seat, Nanos level);

 private:
  void Run(const TurnRules& rules, Nanos until, uint32_t seat, Nanos level);
  void StartSwitch(Nanos cost);
  bool StartTurn(const TurnRules& rules);
  void RunOwner(const TurnRules& rules, Nanos until, Nanos level);
  void SkipWholeCycles(const TurnRules& rules, Nanos until, uint32_t seat, Nanos level);
};

}  // namespace krux::sim

#endif  // KRUX_SIM_STATE_TURNS_H_
