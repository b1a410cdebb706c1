// Keeps what is left usable: see the formula in scheduler/README.md. For every typical class of
// pods (Mix) it asks how much of the node's free GPU share that class could not use, before and
// after the placement; the difference is the fragmentation that the placement makes. Beside it
// stand a best-fit term, which decides between equals, and a price on models that other pods need.
// The measure is that of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), in full
// precision and with two dimensions, memory and time: the usable share of a GPU is the smaller one
// of both free shares.
#ifndef KRUX_SCHEDULER_ENGINE_POLICIES_FRAGMENTATION_H_
#define KRUX_SCHEDULER_ENGINE_POLICIES_FRAGMENTATION_H_

#include "scheduler/engine/policy.h"

namespace krux::engine {

extern const Policy kFragmentation;

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_POLICIES_FRAGMENTATION_H_
