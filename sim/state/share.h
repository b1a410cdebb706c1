// How processes share one simulated card in time: a fluid model. With one busy process it gets all
// of the card; n >= 2 get 1/n each of what task switching leaves. `Service` is what a process that
// is on the card has been given, in nanoseconds of an exclusive card; it is the same for all that
// are on it, so one shared pair (time, service) and the set of busy seats say everything.
//
// Used by the executor of each process; lock-free (one 16-byte compare-and-swap) and safe against
// death at any instruction: a dead seat's bit is cleared by SharedState::ReleaseDead.
// Slices and switch costs of real cards belong into this class.
#ifndef KRUX_SIM_STATE_SHARE_H_
#define KRUX_SIM_STATE_SHARE_H_

#include <cstdint>

#include "common/clock.h"
#include "sim/state/layout.h"

namespace krux::sim {

class CardShare {
 public:
  explicit CardShare(Card* card) : card_(card) {}

  struct Sample {
    uint64_t busy = 0;  // seats on the card
    Nanos service = 0;  // service given until the sampled time; wraps (use ServiceBetween)
    double rate = 0;    // service per nanosecond for each busy seat, at the sampled time
  };
  Sample Read(Nanos now) const;

  // Service from one sample to a later one, >= 0.
  static Nanos ServiceBetween(const Sample& from, const Sample& to);

  // Puts the seat on the card, or takes it off, as of `at`; `at` may lie in the past (then it is
  // moved up to the last change). Returns the time that counts.
  Nanos Join(uint32_t seat, Nanos at);
  Nanos Leave(uint32_t seat, Nanos at);
  // Rewrites the pair for `now`; called at least once a minute while busy (halves wrap at 275 s).
  void Refresh(Nanos now);

 private:
  Nanos Change(uint64_t set, uint64_t clear, Nanos at);
  double RateOf(uint64_t busy) const;

  Card* card_;
};

}  // namespace krux::sim

#endif  // KRUX_SIM_STATE_SHARE_H_
