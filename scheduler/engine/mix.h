// The mix of pods that a cluster sees: the classes that are typical, how often each comes, and what
// each GPU model is worth to pods that can use no other. Knowledge of the fragmentation policy.
//
// Built from counts (History) or from classes that the caller knows. Immutable once made; any
// thread may read it.
#ifndef KRUX_SCHEDULER_ENGINE_MIX_H_
#define KRUX_SCHEDULER_ENGINE_MIX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/engine/krux_engine.h"

namespace krux::engine {

using GpusOfModel = std::array<uint32_t, KRUX_MAX_MODELS>;

// One class of pods. Pods of several containers count as their largest one.
struct Typical {
  uint64_t memory_mib = 0;  // of each GPU; 0: see memory_share
  float memory_share = 0;   // of each GPU, when memory_mib is 0; 1 = whole
  float cores_share = 0;    // of each GPU
  float weight = 0;         // all weights of a mix sum to 1
  uint32_t gpus = 0;
  bool exclusive = false;
  uint64_t cpu_milli = 0;
  uint64_t models = ~uint64_t{0};

  bool SameClassAs(const Typical& other) const {
    return memory_mib == other.memory_mib && memory_share == other.memory_share &&
           cores_share == other.cores_share && gpus == other.gpus && exclusive == other.exclusive &&
           cpu_milli == other.cpu_milli && models == other.models;
  }
};

class Mix {
 public:
  // At most KRUX_MAX_TYPICAL classes: those that cover 95 of 100 pods, the most common first.
  Mix(std::vector<Typical> classes, const GpusOfModel& gpus);

  const std::vector<Typical>& classes() const { return classes_; }

  // All classes of several GPUs; the weight of each is its part of the demand for GPUs.
  const std::vector<Typical>& blocks() const { return blocks_; }

  // Part of the weight, 0 to 1, that lies in other classes than `other`'s.
  double DifferenceFrom(const Mix& other) const;

  // GPU demand that only this model's cards can meet, relative to demand per card in the whole
  // cluster: 0 = nobody needs just this model, 1 = all of it is spoken for.
  float scarcity(uint32_t model) const { return scarcity_[model]; }

 private:
  void Shorten();
  void PriceModels(const GpusOfModel& gpus);
  void FindBlocks();

  std::vector<Typical> classes_;
  std::vector<Typical> blocks_;
  std::array<float, KRUX_MAX_MODELS> scarcity_{};
};

Typical MakeTypical(const krux_container& container, uint64_t cpu_milli, uint64_t models,
                    double weight);

// The container that a pod is counted as: the one that asks for most. nullptr: none.
const krux_container* LargestContainer(const krux_container* containers, size_t count);

// What Krux ships with: classes of a public trace.
Mix ShippedMix();

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_MIX_H_
