// NVML: clocks, power and temperature: figures of the model, moved by how busy the card is.
#include <algorithm>

#include "sim/nvml/library.h"
#include "sim/state/share.h"

using krux::sim::Card;
using krux::sim::CardPercent;
using krux::sim::Give;

namespace {

bool IsBusy(krux::sim::SharedState* state, Card& card) {
  return krux::sim::CardShare(&card).ReadAt(state->Now()).busy != 0;
}

unsigned int MilliwattsOf(Card& card) {
  const unsigned int range = card.facts.power_limit_w - card.facts.power_idle_w;
  // A full card of this model draws seven eighths of what it may.
  return card.facts.power_idle_w * 1000 + range * 1000 * 7 / 8 * CardPercent(card) / 100;
}

nvmlReturn_t MaxClock(const Card& card, nvmlClockType_t type, unsigned int* megahertz) {
  switch (type) {
    case NVML_CLOCK_GRAPHICS:
    case NVML_CLOCK_SM:
      return Give(megahertz, card.facts.graphics_mhz);
    case NVML_CLOCK_MEM:
      return Give(megahertz, card.facts.memory_mhz);
    case NVML_CLOCK_VIDEO:
      return Give(megahertz, card.facts.video_mhz);
    default:
      return NVML_ERROR_INVALID_ARGUMENT;
  }
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                       unsigned int* megahertz) {
  KRUX_SIM_NVML_CARD(device);
  return MaxClock(card, type, megahertz);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                    unsigned int* megahertz) {
  KRUX_SIM_NVML_CARD(device);
  if (type > NVML_CLOCK_VIDEO) return NVML_ERROR_NOT_SUPPORTED;
  const nvmlReturn_t result = MaxClock(card, type, megahertz);
  if (result == NVML_SUCCESS && type != NVML_CLOCK_MEM && !IsBusy(state, card)) {
    *megahertz = card.facts.idle_mhz;
  }
  return result;
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id,
                                unsigned int* megahertz) {
  return id == NVML_CLOCK_ID_CURRENT ? nvmlDeviceGetClockInfo(device, type, megahertz)
                                     : nvmlDeviceGetMaxClockInfo(device, type, megahertz);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type,
                                            unsigned int* megahertz) {
  KRUX_SIM_NVML_CARD(device);
  return type == NVML_CLOCK_VIDEO ? NVML_ERROR_NOT_SUPPORTED : MaxClock(card, type, megahertz);
}
nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t type,
                                                   unsigned int* megahertz) {
  return nvmlDeviceGetApplicationsClock(device, type, megahertz);
}
nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, nvmlClockType_t type,
                                                unsigned int* megahertz) {
  return nvmlDeviceGetMaxClockInfo(device, type, megahertz);
}

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int* count,
                                                unsigned int* megahertz) {
  KRUX_SIM_NVML_CARD(device);
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const bool has_room = *count >= 1 && megahertz != nullptr;
  *count = 1;
  if (!has_room) return NVML_ERROR_INSUFFICIENT_SIZE;
  *megahertz = card.facts.memory_mhz;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory_mhz,
                                                  unsigned int* count, unsigned int* megahertz) {
  KRUX_SIM_NVML_CARD(device);
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory_mhz != card.facts.memory_mhz) return NVML_ERROR_NOT_FOUND;
  constexpr unsigned int kStep = 15;
  const unsigned int needed = (card.facts.graphics_mhz - card.facts.idle_mhz) / kStep + 1;
  const bool has_room = *count >= needed && megahertz != nullptr;
  *count = needed;
  if (!has_room) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned int i = 0; i < needed; ++i) megahertz[i] = card.facts.graphics_mhz - i * kStep;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t* level) {
  KRUX_SIM_NVML_CARD(device);
  return Give(level, NVML_PSTATE_0);
}
nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, nvmlPstates_t* level) {
  return nvmlDeviceGetPerformanceState(device, level);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long* reasons) {
  KRUX_SIM_NVML_CARD(device);
  return Give(reasons, IsBusy(state, card) ? 0ULL : nvmlClocksEventReasonGpuIdle);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}
nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device,
                                                      unsigned long long* reasons) {
  KRUX_SIM_NVML_CARD(device);
  constexpr unsigned long long kAll = 0x1ff;
  return Give(reasons, kAll);
}
nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device,
                                                         unsigned long long* reasons) {
  return nvmlDeviceGetSupportedClocksEventReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  KRUX_SIM_NVML_CARD(device);
  return Give(mode, NVML_FEATURE_ENABLED);
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* milliwatts) {
  KRUX_SIM_NVML_CARD(device);
  return Give(milliwatts, MilliwattsOf(card));
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int* milliwatts) {
  KRUX_SIM_NVML_CARD(device);
  return Give(milliwatts, card.facts.power_limit_w * 1000);
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device,
                                                      unsigned int* milliwatts) {
  return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int* least,
                                                          unsigned int* most) {
  KRUX_SIM_NVML_CARD(device);
  if (least == nullptr || most == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *least = card.facts.power_least_w * 1000;
  *most = card.facts.power_limit_w * 1000;
  return NVML_SUCCESS;
}

// What the card drew since the node's clock began, as if it had always been idle but for the busy
// time of those who are on it now.
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                 unsigned long long* millijoules) {
  KRUX_SIM_NVML_CARD(device);
  uint64_t busy_ns = 0;
  for (const krux::sim::Seat& seat : card.seats) busy_ns += seat.busy_ns.load();
  const double idle = static_cast<double>(state->Now()) / 1e6 * card.facts.power_idle_w;
  const unsigned int more = card.facts.power_limit_w - card.facts.power_idle_w;
  const double work = static_cast<double>(busy_ns) / 1e6 * more * 7 / 8;
  return Give(millijoules, static_cast<unsigned long long>(idle + work));
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned int* celsius) {
  KRUX_SIM_NVML_CARD(device);
  if (sensor != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  return Give(celsius, 31 + 27 * CardPercent(card) / 100);
}
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t* temperature) {
  if (temperature == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (temperature->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  unsigned int celsius = 0;
  const nvmlReturn_t result = nvmlDeviceGetTemperature(device, temperature->sensorType, &celsius);
  if (result == NVML_SUCCESS) temperature->temperature = static_cast<int>(celsius);
  return result;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                               nvmlTemperatureThresholds_t type,
                                               unsigned int* celsius) {
  KRUX_SIM_NVML_CARD(device);
  switch (type) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
    case NVML_TEMPERATURE_THRESHOLD_MEM_MAX:
      return Give(celsius, card.facts.shutdown_celsius);
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
      return Give(celsius, card.facts.slowdown_celsius);
    case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
      return Give(celsius, card.facts.slowdown_celsius - 2);
    default:
      return NVML_ERROR_NOT_SUPPORTED;
  }
}

// All these cards are cooled by their machine.
nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int* fans) {
  KRUX_SIM_NVML_CARD(device);
  return Give(fans, 0U);
}

}  // extern "C"
