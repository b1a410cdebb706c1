// What a placement policy is: a cost for each GPU, and a score for the node once the pod is placed.
// Each policy is a file pair in policies/; PolicyOf() is the list of them.
//
// Policies are pure functions that the planner calls. They see the pod's use as peaks over its
// phases.
#ifndef KRUX_SCHEDULER_ENGINE_POLICY_H_
#define KRUX_SCHEDULER_ENGINE_POLICY_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/engine/forecast.h"
#include "scheduler/engine/krux_engine.h"

namespace krux::engine {

// What a pod uses of one GPU.
struct GpuUse {
  uint64_t memory_mib = 0;
  uint32_t cores = 0;
  uint32_t slots = 0;
};
using NodeUse = std::array<GpuUse, KRUX_MAX_GPUS>;

// A node as policies see it: what is there, without the pod that is being placed.
struct NodeView {
  const krux_node* node;
  const krux_gpu* gpus;
  size_t gpu_count;
  const krux_pod* pod;
  const Forecast* forecast;
};

// Costs and scores are whole numbers, in millionths.
struct Policy {
  // Cost of adding `more` to this GPU when the pod's placed containers use `use` already; lower is
  // better. REQUIRES: it fits.
  int64_t (*gpu_cost)(const NodeView& view, const NodeUse& use, size_t gpu, const GpuUse& more);
  // Score of the node with the pod on it; higher is better.
  int64_t (*node_score)(const NodeView& view, const NodeUse& use);
};

// nullptr: there is no such policy.
const Policy* PolicyOf(uint32_t policy);

// Free part of the GPU beside `use`, in percent; 100 in both: nobody is on it. A GPU that takes no
// newcomers, or is held alone, has none.
struct FreeShare {
  uint8_t memory = 0;
  uint8_t cores = 0;
};
FreeShare FreeOf(const krux_gpu& gpu, const GpuUse& use);

bool TakesNewcomers(const krux_gpu& gpu);  // healthy, not cordoned, not in MIG mode

// How well two GPUs of a node are linked: NVLink, then the same NUMA node.
int Affinity(const krux_gpu* gpus, size_t a, size_t b);

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_POLICY_H_
