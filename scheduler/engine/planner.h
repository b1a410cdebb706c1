// Places a pod's containers on one node's GPUs. See krux_plan() for the contract.
//
// Each container takes the GPUs that the pod's GPU policy finds cheapest, the hardest container
// first; among GPUs that cost the same, those with the best links. When that fails, other
// arrangements are tried, at most kMaxSteps placements in all. The node policy scores the result.
// One object serves one call and lives on the stack; it holds no memory of its own.
#ifndef KRUX_SCHEDULER_ENGINE_PLANNER_H_
#define KRUX_SCHEDULER_ENGINE_PLANNER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/engine/krux_engine.h"
#include "scheduler/engine/phases.h"
#include "scheduler/engine/policy.h"

namespace krux::engine {

class Planner {
 public:
  // Bounds a call to some 100 microseconds; only pods of several containers on a node where they
  // hardly fit come near it.
  static constexpr size_t kMaxSteps = 2000;

  // REQUIRES: the counts are within the limits of krux_engine.h, the pod's policies exist, phases
  // belongs to containers.
  Planner(const NodeView& view, const krux_container* containers, size_t container_count,
          const Phases& phases);

  void Plan(krux_placement* placements, krux_verdict* verdict);

 private:
  // Memory in MiB that the container gets on this GPU; above the GPU's size when it never fits.
  uint64_t Need(const krux_container& container, size_t gpu) const;
  // What keeps the container off this GPU now; all zero = it fits.
  struct Shortfall {
    uint64_t memory_mib = 0;
    uint32_t cores = 0;
    bool slots_full = false;
    bool not_empty = false;
    bool Any() const { return memory_mib > 0 || cores > 0 || slots_full || not_empty; }
    // Closer to fitting: fewer kinds of shortfall, then less memory, then less time.
    bool CloserThan(const Shortfall& other) const;
  };
  Shortfall Missing(size_t container, size_t gpu) const;
  bool IsOpen(size_t gpu) const;  // takes newcomers, is allowed, and not over-committed
  bool IsAllowed(size_t gpu) const;
  bool IsExclusive(const krux_container& container) const;

  // Recursion over (container in order_, number of its GPUs chosen so far).
  bool PlaceContainer(size_t turn);
  bool PlaceNext(size_t turn, size_t chosen, size_t from);
  size_t FindCandidates(size_t container);
  void Apply(size_t container, size_t gpu, bool add);
  bool SameState(size_t a, size_t b) const;
  void PutLinkedFirst(size_t container, const std::array<int64_t, KRUX_MAX_GPUS>& cost);

  GpuUse PeakOf(size_t gpu) const;
  GpuUse AddedPeak(size_t container, size_t gpu) const;
  NodeUse Peaks() const;
  int64_t Score() const;
  void OrderContainers();
  void CountGpus(krux_verdict* verdict) const;
  bool CheckNode(krux_verdict* verdict) const;
  bool CheckContainer(const krux_container& container, krux_verdict* verdict) const;
  void Explain(size_t container, krux_verdict* verdict) const;

  const NodeView view_;
  const Policy* const node_policy_;
  const Policy* const gpu_policy_;
  const krux_gpu* const gpus_;
  const size_t gpu_count_;
  const krux_container* containers_;
  const size_t container_count_;
  const Phases& phases_;
  size_t steps_ = 0;
  krux_placement* placements_ = nullptr;
  krux_verdict* verdict_ = nullptr;
  size_t turns_ = 0;
  std::array<uint8_t, KRUX_MAX_CONTAINERS> order_;
  // For each container: GPUs that take it, best fit first. Filled when its turn comes.
  std::array<std::array<uint8_t, KRUX_MAX_GPUS>, KRUX_MAX_CONTAINERS> candidates_;
  std::array<uint8_t, KRUX_MAX_CONTAINERS> candidate_count_;
  // What the pod's placed containers use; only the node's GPUs and the pod's phases are set.
  std::array<std::array<PhaseUse, kMaxPhases>, KRUX_MAX_GPUS> use_;
};

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_PLANNER_H_
