// NVML: what the devices do now: memory, processes, utilisation, and a few figures that stand
// still.
#include <algorithm>

#include "common/clock.h"
#include "sim/nvml/library.h"
#include "sim/state/share.h"

using krux::sim::Card;
using krux::sim::ProcessUse;

namespace {

// Fills the caller's list as NVML does: with too little room only the count comes back.
template <typename Info, typename F>
nvmlReturn_t Fill(nvmlDevice_t device, unsigned int* count, Info* out, F make) {
  KRUX_SIM_NVML_CARD(device);
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::vector<ProcessUse> visible = state->Processes(card_index);
  std::erase_if(visible, [](const ProcessUse& use) { return use.pid <= 0; });
  const auto needed = static_cast<unsigned int>(visible.size());
  const bool has_room = *count >= needed && (out != nullptr || needed == 0);
  *count = needed;
  if (!has_room) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (const ProcessUse& use : visible) *out++ = make(state->card(card_index), use);
  return NVML_SUCCESS;
}

constexpr unsigned int kNoInstance = 0xffffffff;

nvmlProcessInfo_t ProcessInfo(Card&, const ProcessUse& use) {
  return {static_cast<unsigned int>(use.pid), use.used_bytes, kNoInstance, kNoInstance};
}

nvmlReturn_t Number(nvmlDevice_t device, unsigned int* out, unsigned int value) {
  KRUX_SIM_NVML_CARD(device);
  if (out == nullptr || state == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *out = value;
  return NVML_SUCCESS;
}

bool IsBusy(nvmlDevice_t device) {
  uint32_t card = 0;
  krux::sim::SharedState* state = krux::sim::LibraryState();
  return state != nullptr && krux::sim::CardOf(device, &card) &&
         krux::sim::CardShare(&state->card(card)).ReadAt(state->Now()).busy != 0;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  KRUX_SIM_NVML_CARD(device);
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  memory->total = state->card(card_index).memory_bytes;
  memory->used = state->UsedMemory(card_index);
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  constexpr unsigned int kVersion2 = sizeof(nvmlMemory_v2_t) | (2U << 24);
  if (memory == nullptr || memory->version != kVersion2) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlMemory_t plain{};
  const nvmlReturn_t result = nvmlDeviceGetMemoryInfo(device, &plain);
  if (result != NVML_SUCCESS) return result;
  memory->total = plain.total;
  memory->reserved = 0;
  memory->free = plain.free;
  memory->used = plain.used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* memory) {
  KRUX_SIM_NVML_CARD(device);
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *memory = {state->card(card_index).memory_bytes, state->card(card_index).memory_bytes, 0};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_t* out) {
  return Fill(device, count, out, ProcessInfo);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_t* out) {
  return Fill(device, count, out, ProcessInfo);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                  nvmlProcessInfo_v1_t* out) {
  return Fill(device, count, out, [](Card&, const ProcessUse& use) {
    return nvmlProcessInfo_v1_t{static_cast<unsigned int>(use.pid), use.used_bytes};
  });
}

// There is no graphics work on a simulated card.
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                      nvmlProcessInfo_t*) {
  return Number(device, count, 0);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                      nvmlProcessInfo_t*) {
  return Number(device, count, 0);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                   nvmlProcessInfo_v1_t*) {
  return Number(device, count, 0);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  KRUX_SIM_NVML_CARD(device);
  if (utilization == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned int percent = krux::sim::CardPercent(state->card(card_index));
  *utilization = {percent, percent / 4};
  return NVML_SUCCESS;
}

// Always one sample a process, of the last window: what is older than that is not kept.
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t* out,
                                             unsigned int* count, unsigned long long) {
  const auto now = static_cast<unsigned long long>(krux::MonotonicNow() / krux::kMicrosecond);
  const nvmlReturn_t result = Fill(device, count, out, [now](Card& card, const ProcessUse& use) {
    const unsigned int percent = krux::sim::SeatPercent(card, use.seat);
    return nvmlProcessUtilizationSample_t{
        static_cast<unsigned int>(use.pid), now, percent, percent / 4, 0, 0};
  });
  if (result == NVML_SUCCESS && *count == 0) return NVML_ERROR_NOT_FOUND;
  return result;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* milliwatts) {
  return Number(device, milliwatts, IsBusy(device) ? 610000 : 77000);
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* milliwatts) {
  return Number(device, milliwatts, 700000);
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int* milliwatts) {
  return Number(device, milliwatts, 700000);
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int, unsigned int* celsius) {
  return Number(device, celsius, IsBusy(device) ? 58 : 31);
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned int* megahertz) {
  constexpr int kMemoryClock = 2;
  return Number(device, megahertz, type == kMemoryClock ? 3201 : (IsBusy(device) ? 1980 : 345));
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned int* megahertz) {
  constexpr int kMemoryClock = 2;
  return Number(device, megahertz, type == kMemoryClock ? 3201 : 1980);
}
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, unsigned int* state_out) {
  return Number(device, state_out, 0);
}
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int* mode) {
  return Number(device, mode, 1);
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int* mode) {
  return Number(device, mode, 0);
}
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int* current,
                                  unsigned int* pending) {
  const nvmlReturn_t result = Number(device, current, 1);
  return result == NVML_SUCCESS ? Number(device, pending, 1) : result;
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current,
                                  unsigned int* pending) {
  const nvmlReturn_t result = Number(device, current, 0);
  return result == NVML_SUCCESS ? Number(device, pending, 0) : result;
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  return Number(device, count, 0);
}
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int* is_mig) {
  return Number(device, is_mig, 0);
}

}  // extern "C"
