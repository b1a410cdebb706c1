#include "scheduler/engine/policies/topology.h"

#include "scheduler/engine/policies/binpack.h"

namespace krux::engine {
namespace {

// More than binpack's cost can differ.
constexpr int64_t kPerLink = 4 * kMicro;

// Links to GPUs that are still idle: taking this one breaks them.
int64_t GpuCost(const NodeView& view, const NodeUse& use, size_t gpu, const GpuUse& more) {
  int64_t broken = 0;
  if (view.gpus[gpu].used_slots == 0 && use[gpu].slots == 0) {
    for (size_t other = 0; other < view.gpu_count; ++other) {
      const bool idle = view.gpus[other].used_slots == 0 && use[other].slots == 0;
      if (other != gpu && idle) broken += Affinity(view.gpus, gpu, other);
    }
  }
  return kPerLink * broken + kBinpack.gpu_cost(view, use, gpu, more);
}

// Links per pair of the GPUs that the pod got.
int64_t NodeScore(const NodeView& view, const NodeUse& use) {
  int64_t links = 0;
  int64_t pairs = 0;
  for (size_t a = 0; a < view.gpu_count; ++a) {
    for (size_t b = a + 1; b < view.gpu_count; ++b) {
      if (use[a].slots == 0 || use[b].slots == 0) continue;
      links += Affinity(view.gpus, a, b);
      ++pairs;
    }
  }
  return (pairs == 0 ? 0 : kPerLink * links / pairs) + kBinpack.node_score(view, use);
}

}  // namespace

const Policy kTopology = {GpuCost, NodeScore};

}  // namespace krux::engine
