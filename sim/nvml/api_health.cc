// NVML: errors of the memory, as krux-sim made them, and field values.
#include "common/clock.h"
#include "sim/nvml/library.h"

using krux::sim::CardHealth;
using krux::sim::Give;

namespace {

nvmlReturn_t EccCount(const CardHealth& health, nvmlMemoryErrorType_t type,
                      nvmlEccCounterType_t period, unsigned long long* count) {
  if (type > NVML_MEMORY_ERROR_TYPE_UNCORRECTED || period > NVML_AGGREGATE_ECC) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const bool is_aggregate = period == NVML_AGGREGATE_ECC;
  const std::atomic<uint64_t>& counter =
      type == NVML_MEMORY_ERROR_TYPE_CORRECTED
          ? (is_aggregate ? health.ecc_corrected_aggregate : health.ecc_corrected)
          : (is_aggregate ? health.ecc_uncorrected_aggregate : health.ecc_uncorrected);
  return Give(count, static_cast<unsigned long long>(counter.load()));
}

nvmlReturn_t SetLong(nvmlFieldValue_t* field, unsigned long long value) {
  field->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
  field->value.ullVal = value;
  return NVML_SUCCESS;
}

nvmlReturn_t SetInt(nvmlFieldValue_t* field, unsigned int value) {
  field->value.ullVal = 0;
  field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
  field->value.uiVal = value;
  return NVML_SUCCESS;
}

nvmlReturn_t SetField(nvmlDevice_t device, krux::sim::Card& card, nvmlFieldValue_t* field) {
  const CardHealth& health = card.health;
  unsigned long long big = 0;
  unsigned int small = 0;
  switch (field->fieldId) {
    case NVML_FI_DEV_ECC_CURRENT:
    case NVML_FI_DEV_ECC_PENDING:
      return SetInt(field, 1);
    case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
      return SetLong(field, health.ecc_corrected.load());
    case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
      return SetLong(field, health.ecc_uncorrected.load());
    case NVML_FI_DEV_ECC_SBE_AGG_TOTAL:
      return SetLong(field, health.ecc_corrected_aggregate.load());
    case NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
      return SetLong(field, health.ecc_uncorrected_aggregate.load());
    case NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION:
    case NVML_FI_DEV_ENERGY:
      nvmlDeviceGetTotalEnergyConsumption(device, &big);
      return SetLong(field, big);
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT:
      nvmlDeviceGetPowerUsage(device, &small);
      return SetInt(field, small);
    case NVML_FI_DEV_NVLINK_LINK_COUNT:
      return SetInt(field, card.facts.nvlinks);
    case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
    case NVML_FI_DEV_REMAPPED_COR:
    case NVML_FI_DEV_REMAPPED_UNC:
    case NVML_FI_DEV_REMAPPED_PENDING:
    case NVML_FI_DEV_REMAPPED_FAILURE:
      return SetInt(field, 0);
    default:
      return field->fieldId == 0 || field->fieldId >= NVML_FI_MAX ? NVML_ERROR_INVALID_ARGUMENT
                                                                  : NVML_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t* current,
                                  nvmlEnableState_t* pending) {
  KRUX_SIM_NVML_CARD(device);
  if (current == nullptr || pending == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *current = NVML_FEATURE_ENABLED;
  *pending = NVML_FEATURE_ENABLED;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  KRUX_SIM_NVML_CARD(device);
  return Give(mode, NVML_FEATURE_ENABLED);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t period, unsigned long long* count) {
  KRUX_SIM_NVML_CARD(device);
  return EccCount(card.health, type, period, count);
}

// All errors are in the device's memory.
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t period,
                                             nvmlMemoryLocation_t location,
                                             unsigned long long* count) {
  KRUX_SIM_NVML_CARD(device);
  if (location >= NVML_MEMORY_LOCATION_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned long long total = 0;
  const nvmlReturn_t result = EccCount(card.health, type, period, &total);
  if (result != NVML_SUCCESS) return result;
  switch (location) {
    case NVML_MEMORY_LOCATION_DRAM:
      return Give(count, total);
    case NVML_MEMORY_LOCATION_SRAM:
      return Give(count, 0ULL);
    default:
      return NVML_ERROR_NOT_SUPPORTED;
  }
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int* corrected,
                                       unsigned int* uncorrected, unsigned int* is_pending,
                                       unsigned int* has_failed) {
  KRUX_SIM_NVML_CARD(device);
  for (unsigned int* out : {corrected, uncorrected, is_pending, has_failed}) {
    if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *out = 0;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  KRUX_SIM_NVML_CARD(device);
  if (count <= 0 || values == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < count; ++i) {
    values[i].timestamp = state->Now() / krux::kMicrosecond;
    values[i].latencyUsec = 0;
    values[i].nvmlReturn = SetField(device, card, &values[i]);
  }
  return NVML_SUCCESS;
}

}  // extern "C"
