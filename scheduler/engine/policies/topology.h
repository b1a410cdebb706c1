// Best links: several GPUs of one container from those with NVLink or on one NUMA node (the planner
// picks the set); one GPU from where it breaks no linked set. Among equals, binpack.
#ifndef KRUX_SCHEDULER_ENGINE_POLICIES_TOPOLOGY_H_
#define KRUX_SCHEDULER_ENGINE_POLICIES_TOPOLOGY_H_

#include "scheduler/engine/policy.h"

namespace krux::engine {

extern const Policy kTopology;

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_POLICIES_TOPOLOGY_H_
