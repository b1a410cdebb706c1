// Finds out whether the tenants of a card are better off together (the hardware interleaves them)
// or in turns. Nothing that can be known beforehand says it: the sum of busy fractions is only a
// hint (four eager decoders of 0.4 each do 231 % of one together; two tenants of short synchronous
// kernels do 33 %). So both are tried for a moment and the progress is compared.
//
// Together is chosen when, in two tries one after the other, nobody got less than in turns and all
// got more on average. Progress is what limiters count (launches); a tenant that lies can only make
// the others' figures say no. While together the same is asked of the progress again and again (the
// hardware serves identical tenants unevenly, now one, now the other: only against turns does that
// say anything), and turns are tried again now and then.
//
// Who calls it: LeaseCard. A pure object: `now` is an argument and never goes backwards.
// Thread rule: a plain value.
#ifndef KRUX_AGENT_OVERLAP_PROBE_H_
#define KRUX_AGENT_OVERLAP_PROBE_H_

#include <cstdint>
#include <limits>
#include <map>

#include "common/clock.h"

namespace krux::agent {

class OverlapProbe {
 public:
  using TenantId = uint32_t;
  // Tenant -> launches since its start. Only differences count.
  using Progress = std::map<TenantId, uint64_t>;
  static constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

  struct Options {
    Nanos turns_span = 200 * kMillisecond;  // a few rounds of turns
    Nanos settle = 5 * kMillisecond;        // after each change, before anything is counted
    Nanos glance = 15 * kMillisecond;       // a try that goes badly ends here
    Nanos together_span = 80 * kMillisecond;
    Nanos longest_span =
        160 * kMillisecond;            // with few launches a try takes longer, so long at most
    Nanos watch = 250 * kMillisecond;  // how often a time together is looked at
    Nanos first_pause = 2 * kSecond;   // until the next try; doubles with each no
    Nanos longest_pause = 32 * kSecond;
    uint64_t least_count = 20;  // launches that make a rate
    double nobody_below = 0.95;
    double badly_below = 0.6;      // the same for a glance: slices are not even in so short a time
    double together_above = 1.04;  // mean of what each gets, as part of what it got in turns
    double most_each = 1.5;        // one tenant's luck must not decide for all
    double worse = 0.8;            // mean progress together, as part of what it was at the choice
  };

  OverlapProbe() = default;
  explicit OverlapProbe(const Options& options) : options_(options) {}

  // Two or more tenants are busy: begin, if it has not begun.
  void Arm(Nanos now);
  // When Look is due; kNever = not before Arm.
  Nanos next_look() const { return next_look_; }
  // The progress of all tenants of the card now. `allowed` false: one of them must be in turns.
  // Returns whether to be together from now on.
  bool Look(const Progress& progress, bool allowed, Nanos now);

  bool trying() const { return state_ == State::kTrying; }

 private:
  enum class State { kIdle, kPause, kTurns, kTrying, kTogether };
  enum class Verdict { kYes, kNo, kUnclear };
  using Rates = std::map<TenantId, double>;  // launches a second

  void Begin(State state, const Progress& progress, Nanos now);
  Rates RatesSince(const Progress& progress, Nanos now, uint64_t* fewest) const;
  bool EndTurns(const Progress& progress, Nanos now);
  bool EndTry(const Progress& progress, Nanos now);
  bool Watch(const Progress& progress, Nanos now);
  Verdict Compare(const Rates& together) const;
  bool GoesBadly(const Rates& together) const;
  bool HasSunk(const Rates& together) const;
  bool SayNo(Nanos now);
  bool StopWatching();

  Options options_;
  State state_ = State::kIdle;
  Nanos next_look_ = kNever;
  Nanos counted_since_ = 0;
  Progress start_;  // at counted_since_
  bool settling_ = false;
  Nanos began_ = 0;  // of the state
  Rates in_turns_;
  Rates at_choice_;   // together, when it was chosen
  int agreeing_ = 0;  // tries in a row that said yes
  Nanos pause_ = 0;
  Nanos recheck_at_ = 0;
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_OVERLAP_PROBE_H_
