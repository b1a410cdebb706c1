#include "scheduler/engine/policies/fragmentation.h"

#include <algorithm>

namespace krux::engine {
namespace {

int64_t GpuCost(const NodeView& view, const NodeUse& use, size_t gpu, const GpuUse& more) {
  NodeUse then = use;
  then[gpu].memory_mib += more.memory_mib;
  then[gpu].cores += more.cores;
  then[gpu].slots += more.slots;
  const NodeState after = StateOf(view, then, /*with_pod=*/true);
  // Among equals the fullest; a millionth for each percent changes nothing else.
  return view.forecast->LossOf(after) + std::min(after.memory[gpu], after.cores[gpu]);
}

uint32_t UsableOf(const NodeState& state) {
  uint32_t usable = 0;
  for (size_t gpu = 0; gpu < state.gpu_count; ++gpu) {
    usable += std::min(state.memory[gpu], state.cores[gpu]);
  }
  return usable;
}

int64_t NodeScore(const NodeView& view, const NodeUse& use) {
  const NodeState before = StateOf(view, NodeUse{}, /*with_pod=*/false);
  const NodeState after = StateOf(view, use, /*with_pod=*/true);
  double scarce = 0;
  for (size_t gpu = 0; gpu < view.gpu_count; ++gpu) {
    const int taken = std::min(before.memory[gpu], before.cores[gpu]) -
                      std::min(after.memory[gpu], after.cores[gpu]);
    scarce += static_cast<double>(view.forecast->scarcity(before.model[gpu])) * taken;
  }
  return FragmentationScore(view.forecast->LossOf(before), view.forecast->LossOf(after),
                            UsableOf(after), after.cpu_milli, scarce);
}

}  // namespace

NodeState StateOf(const NodeView& view, const NodeUse& use, bool with_pod) {
  NodeState state;
  state.gpu_count = static_cast<uint32_t>(view.gpu_count);
  for (size_t gpu = 0; gpu < view.gpu_count; ++gpu) {
    const FreeShare free = FreeOf(view.gpus[gpu], use[gpu]);
    state.memory[gpu] = free.memory;
    state.cores[gpu] = free.cores;
    state.model[gpu] = static_cast<uint8_t>(view.gpus[gpu].model % KRUX_MAX_MODELS);
  }
  state.cpu_milli = kUnknownCpu;
  if (view.node != nullptr && view.node->cpu_milli > 0) {
    const uint64_t used = view.node->used_cpu_milli + (with_pod ? view.pod->cpu_milli : 0);
    state.cpu_milli = view.node->cpu_milli - std::min(used, view.node->cpu_milli);
  }
  return state;
}

const Policy kFragmentation = {GpuCost, NodeScore};

}  // namespace krux::engine
