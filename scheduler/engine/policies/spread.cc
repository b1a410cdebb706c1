#include "scheduler/engine/policies/spread.h"

#include "scheduler/engine/policies/binpack.h"

namespace krux::engine {
namespace {

int64_t GpuCost(const NodeView& view, const NodeUse& use, size_t gpu, const GpuUse& more) {
  return -kBinpack.gpu_cost(view, use, gpu, more);
}

// The whole node counts, not only the GPUs that the pod touches: an idle node comes before one
// with a single idle GPU.
int64_t NodeScore(const NodeView& view, const NodeUse& use) {
  int64_t left = 0;
  for (size_t gpu = 0; gpu < view.gpu_count; ++gpu) {
    left += kBinpack.gpu_cost(view, use, gpu, GpuUse{}) / 2;
  }
  return view.gpu_count == 0 ? 0 : left / static_cast<int64_t>(view.gpu_count);
}

}  // namespace

const Policy kSpread = {GpuCost, NodeScore};

}  // namespace krux::engine
