// Replays of a trace: the published inflation without departures, and the trace's own times with
// departures.
#ifndef KRUX_SCHEDULER_SIMULATE_REPLAY_H_
#define KRUX_SCHEDULER_SIMULATE_REPLAY_H_

#include <array>
#include <cstdint>
#include <vector>

#include "scheduler/simulate/chooser.h"
#include "scheduler/simulate/trace.h"

namespace krux::simulate {

// Sizes of tasks, for the demand that failed.
enum SizeClass : uint8_t { kShared = 0, kOneGpu = 1, kSeveralGpus = 2, kEightGpus = 3, kSizes = 4 };

struct Outcome {
  static constexpr size_t kMostPercent = 131;
  // Allocated part of the capacity in percent, by arrived part rounded to a percent: the mean of
  // the samples there; NaN where there is none.
  std::array<double, kMostPercent> allocated;
  // GPUs asked for, and not placed, while arrivals were at most 100 % of the capacity.
  std::array<double, kSizes> asked{};
  std::array<double, kSizes> failed{};

  double unallocated_at(size_t percent) const { return 100 - allocated[percent]; }
};

// Pods arrive in this order (Arrivals()) and stay.
Outcome Inflate(const std::vector<NodeShape>& nodes, const Trace& trace,
                const std::vector<uint32_t>& pods, Chooser* chooser);

struct Departures {
  double mean_allocated = 0;  // percent of the capacity, over the second half of arrivals
  double failed_pods = 0;     // percent of pods that fitted nowhere when they came
  double failed_demand = 0;   // percent of the GPU demand
};

// Pods come and go at their own times, with arrivals closer together by `speed`; a pod that does
// not fit when it comes is lost.
Departures ReplayTimes(const std::vector<NodeShape>& nodes, const Trace& trace,
                       const std::vector<Lifetime>& lifetimes, double speed, Chooser* chooser);

}  // namespace krux::simulate

#endif  // KRUX_SCHEDULER_SIMULATE_REPLAY_H_
