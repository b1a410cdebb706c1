// NVML: what the devices do now: memory, processes, utilisation, and a few figures that stand
// still.
#include <algorithm>
#include <bit>

#include "common/clock.h"
#include "common/units.h"
#include "sim/nvml/library.h"
#include "sim/state/share.h"

using krux::sim::Card;
using krux::sim::Give;
using krux::sim::ProcessUse;

namespace {

// Fills the caller's list as NVML does: with too little room only the count comes back.
// `room` is what it asks for at least.
template <typename Info, typename F>
nvmlReturn_t Fill(nvmlDevice_t device, unsigned int* count, Info* out, F make,
                  unsigned int room = 0) {
  KRUX_SIM_NVML_CARD(device);
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::vector<ProcessUse> visible = state->Processes(card_index);
  std::erase_if(visible, [](const ProcessUse& use) { return use.pid <= 0; });
  const auto needed = static_cast<unsigned int>(visible.size());
  if (*count < needed || (out == nullptr && (needed > 0 || room > 0))) {
    *count = std::max(needed, room);
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  *count = needed;
  for (const ProcessUse& use : visible) *out++ = make(card, use);
  return NVML_SUCCESS;
}

constexpr unsigned int kNoInstance = 0xffffffff;
// An idle H200's library asks for so much room for samples of processes: those that are gone have
// some too. It writes only what there is.
constexpr unsigned int kSampleRoom = 72;

nvmlProcessInfo_t ProcessInfo(Card&, const ProcessUse& use) {
  return {static_cast<unsigned int>(use.pid), use.used_bytes, kNoInstance, kNoInstance};
}

// There is no graphics work and no MPS on a simulated card.
nvmlReturn_t NoProcess(nvmlDevice_t device, unsigned int* count) {
  KRUX_SIM_NVML_CARD(device);
  return Give(count, 0U);
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  KRUX_SIM_NVML_CARD(device);
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  memory->total = card.memory_bytes;
  memory->free = state->FreeMemory(card_index);
  memory->used = memory->total - memory->free;  // with what the driver keeps for itself
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  KRUX_SIM_NVML_CARD(device);
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_FUNCTION_NOT_FOUND;
  memory->total = card.memory_bytes;
  memory->reserved = card.reserved_bytes;
  memory->free = state->FreeMemory(card_index);
  memory->used = memory->total - memory->reserved - memory->free;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t* memory) {
  KRUX_SIM_NVML_CARD(device);
  if (memory == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  // The next power of two, so that all of the memory can be reached; the driver uses 1 MiB of it.
  const unsigned long long total = std::bit_ceil(card.memory_bytes);
  *memory = {total, total - krux::kMiB, krux::kMiB};
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

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                      nvmlProcessInfo_t*) {
  return NoProcess(device, count);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                      nvmlProcessInfo_v2_t*) {
  return NoProcess(device, count);
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                   nvmlProcessInfo_v1_t*) {
  return NoProcess(device, count);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                        nvmlProcessInfo_t*) {
  return NoProcess(device, count);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                        nvmlProcessInfo_v2_t*) {
  return NoProcess(device, count);
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_v1_t*) {
  return NoProcess(device, count);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  KRUX_SIM_NVML_CARD(device);
  if (utilization == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const unsigned int percent = krux::sim::CardPercent(card);
  *utilization = {percent, percent / 4};
  return NVML_SUCCESS;
}

// Always one sample a process, of the last window: what is older than that is not kept.
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t* out,
                                             unsigned int* count, unsigned long long) {
  const auto now = static_cast<unsigned long long>(krux::MonotonicNow() / krux::kMicrosecond);
  const nvmlReturn_t result = Fill(
      device, count, out,
      [now](Card& card, const ProcessUse& use) {
        const unsigned int percent = krux::sim::SeatPercent(card, use.seat);
        return nvmlProcessUtilizationSample_t{
            static_cast<unsigned int>(use.pid), now, percent, percent / 4, 0, 0};
      },
      kSampleRoom);
  if (result == NVML_SUCCESS && *count == 0) return NVML_ERROR_NOT_FOUND;
  return result;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                   nvmlProcessesUtilizationInfo_t* info) {
  if (info == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (info->version != nvmlProcessesUtilizationInfo_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const auto now = static_cast<unsigned long long>(krux::MonotonicNow() / krux::kMicrosecond);
  return Fill(device, &info->processSamplesCount, info->procUtilArray,
              [now](Card& card, const ProcessUse& use) {
                const unsigned int percent = krux::sim::SeatPercent(card, use.seat);
                return nvmlProcessUtilizationInfo_v1_t{
                    now, static_cast<unsigned int>(use.pid), percent, percent / 4, 0, 0, 0, 0};
              });
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int* percent,
                                             unsigned int* period_us) {
  KRUX_SIM_NVML_CARD(device);
  const nvmlReturn_t result = Give(percent, 0U);
  return result == NVML_SUCCESS ? Give(period_us, 167'000U) : result;
}
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int* percent,
                                             unsigned int* period_us) {
  return nvmlDeviceGetEncoderUtilization(device, percent, period_us);
}
nvmlReturn_t nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned int* percent,
                                         unsigned int* period_us) {
  return nvmlDeviceGetEncoderUtilization(device, percent, period_us);
}
nvmlReturn_t nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned int* percent,
                                         unsigned int* period_us) {
  return nvmlDeviceGetEncoderUtilization(device, percent, period_us);
}

// Copies over PCIe are not counted.
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t,
                                         unsigned int* kilobytes) {
  KRUX_SIM_NVML_CARD(device);
  return Give(kilobytes, 0U);
}

}  // extern "C"
