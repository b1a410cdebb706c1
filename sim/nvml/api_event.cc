// NVML event sets: XIDs and ECC errors of the cards that a set watches, each told once.
#include <poll.h>

#include <algorithm>
#include <mutex>

#include "common/clock.h"
#include "sim/nvml/library.h"

namespace {

// As an H200 with driver 580 says it.
constexpr unsigned long long kSupported = 65439;

// A card that a set watches, and how much of its history the set has told.
struct Watch {
  uint32_t card = 0;
  unsigned long long types = 0;
  uint64_t xids = 0;           // told
  uint64_t ecc_corrected = 0;  // seen
  uint64_t ecc_uncorrected = 0;
};

struct EventSet {
  std::mutex mutex;  // guards the rest
  std::vector<Watch> watches;
};

EventSet* SetOf(nvmlEventSet_t set) { return reinterpret_cast<EventSet*>(set); }

bool IsNew(const std::atomic<uint64_t>& now, uint64_t* seen) {
  const uint64_t count = now.load();
  if (count == *seen) return false;
  *seen = count;
  return true;
}

// The next thing that happened to a watched card and was not told yet.
bool TakeEvent(krux::sim::SharedState* state, Watch* watch, nvmlEventData_t* data) {
  const krux::sim::CardHealth& health = state->card(watch->card).health;
  *data = {krux::sim::HandleOf(watch->card), 0, 0, 0xffffffff, 0xffffffff};
  const uint64_t xids = health.xids.load();
  if (xids != watch->xids && (watch->types & nvmlEventTypeXidCriticalError) != 0) {
    if (xids - watch->xids > krux::sim::kXidLog) watch->xids = xids - krux::sim::kXidLog;
    data->eventType = nvmlEventTypeXidCriticalError;
    data->eventData = health.xid_log[watch->xids++ % krux::sim::kXidLog].load();
    return true;
  }
  if ((watch->types & nvmlEventTypeDoubleBitEccError) != 0 &&
      IsNew(health.ecc_uncorrected_aggregate, &watch->ecc_uncorrected)) {
    data->eventType = nvmlEventTypeDoubleBitEccError;
    return true;
  }
  if ((watch->types & nvmlEventTypeSingleBitEccError) != 0 &&
      IsNew(health.ecc_corrected_aggregate, &watch->ecc_corrected)) {
    data->eventType = nvmlEventTypeSingleBitEccError;
    return true;
  }
  return false;
}

bool TakeFromSet(krux::sim::SharedState* state, EventSet* set, nvmlEventData_t* data) {
  const std::lock_guard<std::mutex> lock(set->mutex);
  for (Watch& watch : set->watches) {
    if (TakeEvent(state, &watch, data)) return true;
  }
  return false;
}

nvmlReturn_t Wait(nvmlEventSet_t handle, nvmlEventData_t* data, unsigned int timeout_ms) {
  KRUX_SIM_NVML_STATE(state);
  if (handle == nullptr || data == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  constexpr int kLookEveryMs = 20;
  const krux::Nanos end = krux::MonotonicNow() + timeout_ms * krux::kMillisecond;
  while (true) {
    if (TakeFromSet(state, SetOf(handle), data)) return NVML_SUCCESS;
    const krux::Nanos left = (end - krux::MonotonicNow()) / krux::kMillisecond;
    if (left <= 0) return NVML_ERROR_TIMEOUT;
    poll(nullptr, 0, static_cast<int>(std::min<krux::Nanos>(left, kLookEveryMs)));
  }
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* out) {
  KRUX_SIM_NVML_STATE(state);
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
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
  return krux::sim::Give(types, kSupported);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set) {
  KRUX_SIM_NVML_CARD(device);
  if (set == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if ((types & ~kSupported) != 0) return NVML_ERROR_NOT_SUPPORTED;
  const krux::sim::CardHealth& health = card.health;
  const std::lock_guard<std::mutex> lock(SetOf(set)->mutex);
  SetOf(set)->watches.push_back({card_index, types, health.xids.load(),
                                 health.ecc_corrected_aggregate.load(),
                                 health.ecc_uncorrected_aggregate.load()});
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data,
                                 unsigned int timeout_ms) {
  return Wait(set, data, timeout_ms);
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t* data, unsigned int timeout_ms) {
  // The first generation knew nothing of MIG: its callers have room for three fields only.
  nvmlEventData_t full{};
  const nvmlReturn_t result = Wait(set, data == nullptr ? nullptr : &full, timeout_ms);
  if (result != NVML_SUCCESS) return result;
  data->device = full.device;
  data->eventType = full.eventType;
  data->eventData = full.eventData;
  return NVML_SUCCESS;
}

}  // extern "C"
