#include "scheduler/engine/policies/fragmentation.h"

#include <algorithm>
#include <array>

namespace krux::engine {
namespace {

// GPUs of fragmentation that a best-fit difference of a whole 8-GPU node is worth, and the part of
// a pod's demand that taking a wanted model costs.
constexpr double kBestFit = 0.08;
constexpr double kScarcity = 0.5;
// A node of this size makes best-fit terms of different nodes comparable.
constexpr double kGpusOfLargeNode = 8;
constexpr double kCpuOfLargeNode = 128000;

// A node's free shares with the pod on it.
struct State {
  std::array<FreeShare, KRUX_MAX_GPUS> free;
  std::array<float, KRUX_MAX_GPUS> usable;
  float all_usable = 0;
  uint64_t cpu_milli = ~uint64_t{0};
};

State StateOf(const NodeView& view, const NodeUse& use, bool with_pod) {
  State state;
  for (size_t gpu = 0; gpu < view.gpu_count; ++gpu) {
    const bool open = TakesNewcomers(view.gpus[gpu]);
    state.free[gpu] = open ? FreeOf(view.gpus[gpu], use[gpu]) : FreeShare{};
    state.usable[gpu] = state.free[gpu].usable();
    state.all_usable += state.usable[gpu];
  }
  if (view.node != nullptr && view.node->cpu_milli > 0) {
    const uint64_t used = view.node->used_cpu_milli + (with_pod ? view.pod->cpu_milli : 0);
    state.cpu_milli = view.node->cpu_milli - std::min(used, view.node->cpu_milli);
  }
  return state;
}

// Share of the node that a class cannot use: all of it when a pod of the class does not fit.
float Unusable(const NodeView& view, const State& state, const Typical& t) {
  if (t.gpus == 0 || t.cpu_milli > state.cpu_milli) return state.all_usable;
  float unusable = 0;
  uint32_t fitting = 0;
  for (size_t gpu = 0; gpu < view.gpu_count; ++gpu) {
    const krux_gpu& g = view.gpus[gpu];
    const float memory = t.memory_mib == 0
                             ? t.memory_share
                             : static_cast<float>(t.memory_mib) /
                                   static_cast<float>(std::max<uint64_t>(g.memory_mib, 1));
    const FreeShare& left = state.free[gpu];
    constexpr float kRounding = 1e-4F;
    const bool empty = left.memory == 1 && left.cores == 1;
    const bool fits = (t.models >> (g.model % KRUX_MAX_MODELS) & 1) != 0 &&
                      left.memory + kRounding >= memory &&
                      left.cores + kRounding >= t.cores_share && (!t.exclusive || empty);
    fitting += fits ? 1 : 0;
    unusable += fits ? 0 : state.usable[gpu];
  }
  return fitting < t.gpus ? state.all_usable : unusable;
}

double Fragmentation(const NodeView& view, const State& state) {
  double sum = 0;
  for (const Typical& t : view.mix->classes()) sum += t.weight * Unusable(view, state, t);
  return sum;
}

double GpuCost(const NodeView& view, const NodeUse& use, size_t gpu, const GpuUse& more) {
  NodeUse then = use;
  then[gpu].memory_mib += more.memory_mib;
  then[gpu].cores += more.cores;
  const State state = StateOf(view, then, /*with_pod=*/true);
  return Fragmentation(view, state) + kBestFit / kGpusOfLargeNode * state.usable[gpu];
}

double NodeScore(const NodeView& view, const NodeUse& use) {
  const State before = StateOf(view, NodeUse{}, /*with_pod=*/false);
  const State after = StateOf(view, use, /*with_pod=*/true);
  double cpu_left = 0;
  if (view.node != nullptr && view.node->cpu_milli > 0) {
    cpu_left = static_cast<double>(after.cpu_milli) / kCpuOfLargeNode;
  }
  const double left = (after.all_usable / kGpusOfLargeNode + cpu_left) / 2;
  double wanted = 0;
  for (size_t gpu = 0; gpu < view.gpu_count; ++gpu) {
    const float taken = before.usable[gpu] - after.usable[gpu];
    wanted += view.mix->scarcity(view.gpus[gpu].model % KRUX_MAX_MODELS) * taken;
  }
  return Fragmentation(view, before) - Fragmentation(view, after) - kBestFit * left -
         kScarcity * wanted;
}

}  // namespace

const Policy kFragmentation = {GpuCost, NodeScore};

}  // namespace krux::engine
