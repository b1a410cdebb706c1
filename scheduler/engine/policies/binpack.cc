#include "scheduler/engine/policies/binpack.h"

namespace krux::engine {
namespace {

double GpuCost(const NodeView& view, const NodeUse& use, size_t gpu, const GpuUse& more) {
  const GpuUse then{use[gpu].memory_mib + more.memory_mib, use[gpu].cores + more.cores, 0};
  const FreeShare left = FreeOf(view.gpus[gpu], then);
  return left.memory + left.cores;
}

double NodeScore(const NodeView& view, const NodeUse& use) {
  double left = 0;
  double touched = 0;
  for (size_t gpu = 0; gpu < view.gpu_count; ++gpu) {
    if (use[gpu].slots == 0) continue;
    const FreeShare then = FreeOf(view.gpus[gpu], use[gpu]);
    left += (then.memory + then.cores) / 2;
    ++touched;
  }
  return touched == 0 ? 0 : 1 - left / touched;
}

}  // namespace

const Policy kBinpack = {GpuCost, NodeScore};

}  // namespace krux::engine
