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

// usable_after: sum of usable shares in percent; scarce: sum over the GPUs of scarcity times the
// usable share in percent that the pod takes.
int64_t FragmentationScore(int64_t loss_before, int64_t loss_after, uint32_t usable_after,
                           uint64_t cpu_after, double scarce);

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_POLICIES_FRAGMENTATION_H_
