// A study: several policies on several traces with several seeds, spread over threads, and the mean
// of each cell.
#ifndef KRUX_SCHEDULER_SIMULATE_STUDY_H_
#define KRUX_SCHEDULER_SIMULATE_STUDY_H_

#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/result.h"
#include "scheduler/simulate/chooser.h"
#include "scheduler/simulate/replay.h"
#include "scheduler/simulate/trace.h"

namespace krux::simulate {

struct StudyPlan {
  std::vector<std::string> traces;
  std::vector<std::string> policies;
  Setting setting;     // its policy is not used
  int seeds = 10;      // 42, 43, ...
  int node_order = 0;  // 0: by name, as published; else nodes shuffled with this seed
  unsigned jobs = 1;   // threads
};

// Means over the seeds.
struct Cell {
  std::array<double, Outcome::kMostPercent> unallocated{};
  std::array<double, kSizes> asked{};
  std::array<double, kSizes> failed{};
};

using Cells = std::map<std::pair<std::string, std::string>, Cell>;  // by trace and policy

// `progress` is called from one thread at a time with the number of finished replays.
Result<Cells> RunStudy(const Traces& traces, const StudyPlan& plan,
                       const std::function<void(size_t done, size_t all)>& progress);

}  // namespace krux::simulate

#endif  // KRUX_SCHEDULER_SIMULATE_STUDY_H_
