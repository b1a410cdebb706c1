// Counts the pods that arrive, by class, and turns the counts into a Mix. Recent pods count more:
// a pod's weight halves with each kHalfLife pods after it. It starts from the shipped mix, worth
// kPriorPods pods, so that the first decisions are not blind.
//
// Used by Cluster; one thread at a time.
#ifndef KRUX_SCHEDULER_ENGINE_HISTORY_H_
#define KRUX_SCHEDULER_ENGINE_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "scheduler/engine/mix.h"

namespace krux::engine {

class History {
 public:
  static constexpr double kHalfLife = 2000;
  static constexpr double kPriorPods = 50;
  // Rare classes are forgotten first: the least weight leaves when a new class needs its place.
  static constexpr size_t kMaxClasses = 1024;

  History();

  // A pod has arrived; container = nullptr: it asks for no GPU. True when it is time for a new mix:
  // soon at first, then each 250 pods.
  bool Add(const krux_container* container, uint64_t cpu_milli, uint64_t models);

  Mix MakeMix(const GpusOfModel& gpus) const;

 private:
  struct Entry {
    krux_container container{};
    uint64_t cpu_milli = 0;
    uint64_t models = 0;
    double weight = 0;
  };
  Entry& Find(const krux_container& container, uint64_t cpu_milli, uint64_t models);

  std::vector<Entry> entries_;
  std::unordered_map<uint64_t, size_t> entry_of_;  // by hash of the class
  double next_weight_ = 1;
  uint64_t pods_ = 0;
};

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_HISTORY_H_
