#include "scheduler/engine/policies/binpack.h"

namespace krux::engine {
namespace {

// Exact, in millionths: the rounded shares of FreeOf() would make ties that are none.
int64_t Left(const krux_gpu& gpu, const GpuUse& use) {
  if (gpu.memory_mib == 0) return 0;
  const uint64_t memory = gpu.used_memory_mib + use.memory_mib;
  const uint32_t cores = gpu.used_cores + use.cores;
  const auto free_memory = memory < gpu.memory_mib ? gpu.memory_mib - memory : 0;
  const int64_t free_cores = cores < 100 ? 100 - cores : 0;
  return static_cast<int64_t>(free_memory * kMicro / gpu.memory_mib) + free_cores * kMicro / 100;
}

int64_t GpuCost(const NodeView& view, const NodeUse& use, size_t gpu, const GpuUse& more) {
  return Left(view.gpus[gpu],
              {use[gpu].memory_mib + more.memory_mib, use[gpu].cores + more.cores, 0});
}

int64_t NodeScore(const NodeView& view, const NodeUse& use) {
  int64_t left = 0;
  int64_t touched = 0;
  for (size_t gpu = 0; gpu < view.gpu_count; ++gpu) {
    if (use[gpu].slots == 0) continue;
    left += Left(view.gpus[gpu], use[gpu]) / 2;
    ++touched;
  }
  return touched == 0 ? 0 : kMicro - left / touched;
}

}  // namespace

const Policy kBinpack = {GpuCost, NodeScore};

}  // namespace krux::engine
