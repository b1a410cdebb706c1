// Fullest first: the GPU on which least is left, and the node whose touched GPUs are fullest.
#ifndef KRUX_SCHEDULER_ENGINE_POLICIES_BINPACK_H_
#define KRUX_SCHEDULER_ENGINE_POLICIES_BINPACK_H_

#include "scheduler/engine/policy.h"

namespace krux::engine {

extern const Policy kBinpack;

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_POLICIES_BINPACK_H_
