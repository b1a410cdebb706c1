// Emptiest first: the opposite of binpack, for those who want tenants far apart.
#ifndef KRUX_SCHEDULER_ENGINE_POLICIES_SPREAD_H_
#define KRUX_SCHEDULER_ENGINE_POLICIES_SPREAD_H_

#include "scheduler/engine/policy.h"

namespace krux::engine {

extern const Policy kSpread;

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_POLICIES_SPREAD_H_
