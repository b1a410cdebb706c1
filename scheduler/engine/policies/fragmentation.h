// Keeps what is left usable. The score of a node is
//   loss before - loss after - best fit - scarcity
// loss is the Forecast's: free GPU share that is likely to be lost. best fit, a small cost on what
// the node has left, decides between equals and keeps idle nodes idle. scarcity is a price on
// models that other pods cannot do without. All in millionths of a GPU; scheduler/README.md has
// more.
#ifndef KRUX_SCHEDULER_ENGINE_POLICIES_FRAGMENTATION_H_
#define KRUX_SCHEDULER_ENGINE_POLICIES_FRAGMENTATION_H_

#include "scheduler/engine/forecast.h"
#include "scheduler/engine/policy.h"

namespace krux::engine {

extern const Policy kFragmentation;

// The same in parts, for the cluster's index, which does not build a NodeView for each node.

// The node's state; `use` is the pod's, its CPU counts when with_pod is set.
NodeState StateOf(const NodeView& view, const NodeUse& use, bool with_pod);

// GPUs of loss that 8 free GPUs, and that 128 free cores, are worth as best fit; and the price of a
// scarce model as a part of the GPUs taken. Found like the weights of the Forecast.
constexpr double kGpusLeft = 0.099;
constexpr double kCpuLeft = 0.111;
constexpr double kScarcity = 1.0;

// std::llround() for what fits in 53 bits, without a call.
inline int64_t ToWhole(double x) {
  const auto whole = static_cast<int64_t>(x);
  const double rest = x - static_cast<double>(whole);
  return whole + (rest >= 0.5 ? 1 : 0) - (rest <= -0.5 ? 1 : 0);
}

// usable_after: sum of usable shares in percent; scarce: sum over the GPUs of scarcity times the
// usable share in percent that the pod takes.
inline int64_t FragmentationScore(int64_t loss_before, int64_t loss_after, uint32_t usable_after,
                                  uint64_t cpu_after, double scarce) {
  constexpr double kMicroOfGpus = kGpusLeft * kMicro / (8 * kWholeShare);
  constexpr double kMicroOfCpu = kCpuLeft * kMicro / 128000;
  constexpr double kMicroOfScarce = kScarcity * kMicro / kWholeShare;
  const double cpu = cpu_after == kUnknownCpu ? 0 : static_cast<double>(cpu_after);
  return loss_before - loss_after -
         ToWhole(kMicroOfGpus * usable_after + kMicroOfCpu * cpu + kMicroOfScarce * scarce);
}

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_POLICIES_FRAGMENTATION_H_
