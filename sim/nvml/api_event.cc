// NVML event sets: a lost card is told as XID 79, once for each set that watches it.
#include <poll.h>

#include <algorithm>
#include <mutex>

#include "common/clock.h"
#include "sim/nvml/library.h"

namespace {

constexpr unsigned long long kXidEvent = 0x8;
constexpr unsigned long long kSupported = kXidEvent;
constexpr unsigned long long kXidFellOffTheBus = 79;

struct EventSet {
  std::mutex mutex;                // guards the rest
  std::vector<uint32_t> watched;   // cards
  std::vector<uint32_t> reported;  // lost cards that were told
};

EventSet* SetOf(nvmlEventSet_t set) { return reinterpret_cast<EventSet*>(set); }

// The next lost card that the set watches and has not told; false: none.
bool TakeLost(krux::sim::SharedState* state, EventSet* set, uint32_t* card) {
  const std::lock_guard<std::mutex> lock(set->mutex);
  for (const uint32_t watched : set->watched) {
    const bool is_lost = state->card(watched).lost.load() != 0;
    const auto told = std::find(set->reported.begin(), set->reported.end(), watched);
    if (!is_lost && told != set->reported.end()) set->reported.erase(told);  // healed meanwhile
    if (!is_lost || told != set->reported.end()) continue;
    set->reported.push_back(watched);
    *card = watched;
    return true;
  }
  return false;
}

nvmlReturn_t Wait(nvmlEventSet_t handle, nvmlEventData_t* data, unsigned int timeout_ms) {
  KRUX_SIM_NVML_STATE(state);
  if (handle == nullptr || data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  constexpr int kLookEveryMs = 20;
  const krux::Nanos end = krux::MonotonicNow() + timeout_ms * krux::kMillisecond;
  while (true) {
    uint32_t card = 0;
    if (TakeLost(state, SetOf(handle), &card)) {
      *data = {krux::sim::HandleOf(card), kXidEvent, kXidFellOffTheBus, 0xffffffff, 0xffffffff};
      return NVML_SUCCESS;
    }
    const krux::Nanos left = (end - krux::MonotonicNow()) / krux::kMillisecond;
    if (left <= 0) return NVML_ERROR_TIMEOUT;
    poll(nullptr, 0, static_cast<int>(std::min<krux::Nanos>(left, kLookEveryMs)));
  }
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* out) {
  KRUX_SIM_NVML_STATE(state);
  if (out == nullptr || state == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = reinterpret_cast<nvmlEventSet_t>(new EventSet);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  delete SetOf(set);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long* types) {
  KRUX_SIM_NVML_CARD(device);
  if (types == nullptr || state == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *types = kSupported;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set) {
  KRUX_SIM_NVML_CARD(device);
  if (set == nullptr || state == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if ((types & ~kSupported) != 0) return NVML_ERROR_NOT_SUPPORTED;
  const std::lock_guard<std::mutex> lock(SetOf(set)->mutex);
  SetOf(set)->watched.push_back(card_index);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data,
                                 unsigned int timeout_ms) {
  return Wait(set, data, timeout_ms);
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t* data,
                              unsigned int timeout_ms) {
  nvmlEventData_t full{};
  const nvmlReturn_t result = Wait(set, data == nullptr ? nullptr : &full, timeout_ms);
  if (result == NVML_SUCCESS) *data = {full.device, full.eventType, full.eventData};
  return result;
}

}  // extern "C"
