#include "sim/state/fault.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

namespace krux::sim {
namespace {

constexpr size_t kNameBytes = sizeof(Fault::name);

// "cuMemAlloc_v2_ptsz" and "cuMemAlloc" are the same call.
std::string_view WithoutVersion(std::string_view name) {
  for (const std::string_view form : {"_ptsz", "_ptds"}) {
    if (name.ends_with(form)) name.remove_suffix(form.size());
  }
  const bool has_version = name.size() > 3 && name[name.size() - 3] == '_' &&
                           name[name.size() - 2] == 'v' && name.back() >= '0' && name.back() <= '9';
  if (has_version) name.remove_suffix(3);
  return name;
}

void StoreName(Fault* fault, std::string_view name) {
  char bytes[kNameBytes] = {};
  std::memcpy(bytes, name.data(), std::min(name.size(), kNameBytes - 1));
  for (size_t i = 0; i < std::size(fault->name); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    fault->name[i].store(word);
  }
}

std::string LoadName(const Fault& fault) {
  char bytes[kNameBytes];
  for (size_t i = 0; i < std::size(fault.name); ++i) {
    const uint64_t word = fault.name[i].load();
    std::memcpy(bytes + i * sizeof word, &word, sizeof word);
  }
  bytes[kNameBytes - 1] = '\0';
  return bytes;
}

bool IsMeant(const Fault& fault, std::string_view function) {
  const uint64_t pid = fault.pid.load();
  if (pid != 0 && pid != static_cast<uint64_t>(getpid())) return false;
  const std::string name = LoadName(fault);
  return name == "*" || WithoutVersion(name) == WithoutVersion(function);
}

// True when this call is one of those that the fault hits.
bool CountDown(SharedState* state, Fault* fault) {
  uint64_t left = fault->countdown.load();
  while (left > 1) {
    if (fault->countdown.compare_exchange_weak(left, left - 1)) return false;
  }
  uint64_t times = fault->times.load();
  while (times > 0) {
    if (!fault->times.compare_exchange_weak(times, times - 1)) continue;
    fault->hits.fetch_add(1);
    uint32_t armed = 1;
    if (times == 1 && fault->armed.compare_exchange_strong(armed, 0)) state->CountArmedFaults();
    return true;
  }
  return false;
}

}  // namespace

std::optional<int> MeetFault(SharedState* state, const char* function) {
  for (uint32_t i = 0; i < kMaxFaults; ++i) {
    Fault& fault = state->fault(i);
    if (fault.armed.load() != 1 || !IsMeant(fault, function) || !CountDown(state, &fault)) continue;
    const uint64_t value = fault.value.load();
    switch (static_cast<FaultAction>(fault.action.load())) {
      case FaultAction::kFail:
        return static_cast<int>(value);
      case FaultAction::kSlow: {
        constexpr uint64_t kLongest = 60 * static_cast<uint64_t>(kSecond);
        std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(value, kLongest)));
        break;
      }
      case FaultAction::kKill:
        kill(getpid(), SIGKILL);
        break;
    }
  }
  return std::nullopt;
}

Status PlanFault(SharedState* state, const FaultPlan& plan) {
  const bool is_name =
      plan.call == "*" || plan.call.starts_with("cu") || plan.call.starts_with("nvml");
  if (!is_name || plan.call.size() >= kNameBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + plan.call + "' is no call: use a name such as cuMemAlloc, or * for any"};
  }
  if (plan.nth == 0 || plan.times == 0) {
    return Error{ErrorCode::kInvalidArgument, "calls are counted from 1"};
  }
  for (uint32_t i = 0; i < kMaxFaults; ++i) {
    Fault& fault = state->fault(i);
    uint32_t free = 0;
    constexpr uint32_t kBeingWritten = 2;
    if (!fault.armed.compare_exchange_strong(free, kBeingWritten)) continue;
    StoreName(&fault, plan.call);
    fault.action.store(static_cast<uint32_t>(plan.action));
    fault.value.store(plan.value);
    fault.countdown.store(plan.nth);
    fault.times.store(plan.times);
    fault.pid.store(plan.pid);
    fault.hits.store(0);
    fault.armed.store(1);
    state->CountArmedFaults();
    return Ok();
  }
  return Error{ErrorCode::kResourceExhausted,
               "all " + std::to_string(kMaxFaults) + " faults are planned: clear them first"};
}

void ClearFaults(SharedState* state) {
  for (uint32_t i = 0; i < kMaxFaults; ++i) state->fault(i).armed.store(0);
  state->CountArmedFaults();
}

std::vector<FaultStatus> PlannedFaults(SharedState* state) {
  std::vector<FaultStatus> result;
  for (uint32_t i = 0; i < kMaxFaults; ++i) {
    const Fault& fault = state->fault(i);
    if (fault.armed.load() != 1) continue;
    FaultStatus status;
    status.slot = i;
    status.plan = {LoadName(fault),    static_cast<FaultAction>(fault.action.load()),
                   fault.value.load(), fault.countdown.load(),
                   fault.times.load(), fault.pid.load()};
    status.hits = fault.hits.load();
    result.push_back(status);
  }
  return result;
}

}  // namespace krux::sim
