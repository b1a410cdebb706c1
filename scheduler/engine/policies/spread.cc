#include "scheduler/engine/policies/spread.h"

#include "scheduler/engine/policies/binpack.h"

namespace krux::engine {
namespace {

double GpuCost(const NodeView& view, const NodeUse& use, size_t gpu, const GpuUse& more) {
  return -kBinpack.gpu_cost(view, use, gpu, more);
}

// The whole node counts, not only the GPUs that the pod touches: an idle node comes before one
// with a single idle GPU.
double NodeScore(const NodeView& view, const NodeUse& use) {
  double left = 0;
  for (size_t gpu = 0; gpu < view.gpu_count; ++gpu) {
    const FreeShare then = FreeOf(view.gpus[gpu], use[gpu]);
    left += (then.memory + then.cores) / 2;
  }
  return view.gpu_count == 0 ? 0 : left / static_cast<double>(view.gpu_count);
}

}  // namespace

const Policy kSpread = {GpuCost, NodeScore};

}  // namespace krux::engine
