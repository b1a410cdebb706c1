// Faults of calls: krux-sim plans them in the shared state, the libraries carry them out at the
// start of each entry point (of libcuda and libnvidia-ml) while programs run.
//
// A call without any planned fault costs one load. Thread-safe; a process that dies anywhere leaves
// at worst a counter one too low.
#ifndef KRUX_SIM_STATE_FAULT_H_
#define KRUX_SIM_STATE_FAULT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.h"
#include "sim/state/state.h"

namespace krux::sim {

enum class FaultAction : uint32_t {
  kFail = 1,  // return `value` without doing anything
  kSlow = 2,  // sleep `value` nanoseconds of real time, then go on
  kKill = 3,  // SIGKILL for the caller, before the call does anything
};

struct FaultPlan {
  std::string call;  // "cuMemAlloc": with or without version; "*": any call
  FaultAction action = FaultAction::kFail;
  uint64_t value = 0;
  uint64_t nth = 1;    // the fault hits the n-th such call from now
  uint64_t times = 1;  // and how many from there on
  uint64_t pid = 0;    // 0: calls of any process
};

struct FaultStatus {
  uint32_t slot = 0;
  FaultPlan plan;  // nth: how many calls are left until it hits
  uint64_t hits = 0;
};

// kInvalidArgument: no call's name, or a zero count. kResourceExhausted: all slots are taken.
Status PlanFault(SharedState* state, const FaultPlan& plan);
void ClearFaults(SharedState* state);
std::vector<FaultStatus> PlannedFaults(SharedState* state);

// The slow part of FaultAt.
std::optional<int> MeetFault(SharedState* state, const char* function);

// What a call has to return at once, if anything; may sleep or not return at all.
inline std::optional<int> FaultAt(SharedState* state, const char* function) {
  if (state->data().faults_armed.load(std::memory_order_relaxed) == 0) [[likely]] {
    return std::nullopt;
  }
  return MeetFault(state, function);
}

}  // namespace krux::sim

#endif  // KRUX_SIM_STATE_FAULT_H_
