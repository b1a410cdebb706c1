// The phases of a pod's life: which of its containers run at the same time.
//
// Phase p < (number of init containers) is the p-th init container with the sidecars before it;
// the last phase is all sidecars and all apps. A container is active in phases [first, last].
// Used by the planner and by krux_peak(), so that both count alike. Pure.
#ifndef KRUX_SCHEDULER_ENGINE_PHASES_H_
#define KRUX_SCHEDULER_ENGINE_PHASES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/engine/krux_engine.h"

namespace krux::engine {

constexpr size_t kMaxPhases = KRUX_MAX_CONTAINERS + 1;

struct Phases {
  size_t count = 0;
  std::array<uint8_t, KRUX_MAX_CONTAINERS> first{};
  std::array<uint8_t, KRUX_MAX_CONTAINERS> last{};
};

// False when there are too many containers or one of an unknown kind.
bool FindPhases(const krux_container* containers, size_t count, Phases* phases);

// Use of one GPU by the pod's containers in one phase. Not set by itself: the planner has thousands
// of them on its stack, and uses few.
struct PhaseUse {
  uint64_t memory_mib;
  uint32_t cores;
  uint16_t slots;
  uint16_t exclusive;  // containers that need the GPU for themselves
  bool operator==(const PhaseUse&) const = default;
};

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_PHASES_H_
