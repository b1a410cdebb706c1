// NVML: what a device is: names, numbers and limits that its model has.
#include <cstdio>
#include <cstring>

#include "sim/nvml/library.h"

using krux::sim::CopyText;
using krux::sim::Give;

extern "C" {

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  KRUX_SIM_NVML_CARD(device);
  if (index == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (size_t i = 0; i < state->visible_cards().size(); ++i) {
    if (state->visible_cards()[i] == card_index) *index = static_cast<unsigned int>(i);
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* out, unsigned int size) {
  KRUX_SIM_NVML_CARD(device);
  return CopyText(card.name, out, size);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* out, unsigned int size) {
  KRUX_SIM_NVML_CARD(device);
  return CopyText(krux::sim::UuidText(card), out, size);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minor) {
  KRUX_SIM_NVML_CARD(device);
  return Give(minor, card_index);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* out, unsigned int size) {
  KRUX_SIM_NVML_CARD(device);
  char text[24];
  std::snprintf(text, sizeof text, "1650000000%03u", card_index);
  return CopyText(text, out, size);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t* brand) {
  KRUX_SIM_NVML_CARD(device);
  return Give(brand, static_cast<nvmlBrandType_t>(card.facts.brand));
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t* out) {
  KRUX_SIM_NVML_CARD(device);
  return Give(out, nvmlDeviceArchitecture_t{card.facts.architecture});
}

nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char* out, unsigned int size) {
  KRUX_SIM_NVML_CARD(device);
  return CopyText(card.facts.part_number, out, size);
}

nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char* out, unsigned int size) {
  KRUX_SIM_NVML_CARD(device);
  return CopyText(card.facts.vbios, out, size);
}

nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned int* id) {
  KRUX_SIM_NVML_CARD(device);
  return Give(id, card.pci_bus << 8);
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int* is_multi) {
  KRUX_SIM_NVML_CARD(device);
  return Give(is_multi, 0U);
}

nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t device, unsigned int* id) {
  KRUX_SIM_NVML_CARD(device);
  return Give(id, card_index + 1);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  KRUX_SIM_NVML_CARD(device);
  if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::memset(pci, 0, sizeof *pci);
  pci->bus = card.pci_bus;
  pci->pciDeviceId = card.facts.pci_device_id;
  pci->pciSubSystemId = card.facts.pci_subsystem_id;
  const std::string text = krux::sim::PciText(card);
  std::snprintf(pci->busId, sizeof pci->busId, "%s", text.c_str());
  std::snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%s", text.c_str() + 4);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvmlDeviceGetPciInfo_v3(device, pci);
}
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  return nvmlDeviceGetPciInfo_v3(device, pci);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  KRUX_SIM_NVML_CARD(device);
  if (major == nullptr || minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *major = static_cast<int>(card.compute_major);
  *minor = static_cast<int>(card.compute_minor);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int* cores) {
  KRUX_SIM_NVML_CARD(device);
  return Give(cores, card.multiprocessors * card.facts.cores_per_multiprocessor);
}

nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int* bits) {
  KRUX_SIM_NVML_CARD(device);
  return Give(bits, card.facts.bus_width_bits);
}

nvmlReturn_t nvmlDeviceGetBusType(nvmlDevice_t device, nvmlBusType_t* type) {
  KRUX_SIM_NVML_CARD(device);
  return Give(type, nvmlBusType_t{NVML_BUS_TYPE_PCIE});
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int* generation) {
  KRUX_SIM_NVML_CARD(device);
  return Give(generation, card.facts.pcie_generation);
}
nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int* generation) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, generation);
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int* generation) {
  return nvmlDeviceGetMaxPcieLinkGeneration(device, generation);
}
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int* lanes) {
  KRUX_SIM_NVML_CARD(device);
  return Give(lanes, 16U);
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int* lanes) {
  return nvmlDeviceGetMaxPcieLinkWidth(device, lanes);
}
nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int* count) {
  KRUX_SIM_NVML_CARD(device);
  return Give(count, 0U);
}

// Modes that nobody can change here.
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  KRUX_SIM_NVML_CARD(device);
  return Give(mode, NVML_FEATURE_ENABLED);
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t* mode) {
  KRUX_SIM_NVML_CARD(device);
  return Give(mode, NVML_COMPUTEMODE_DEFAULT);
}
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  KRUX_SIM_NVML_CARD(device);
  return Give(mode, NVML_FEATURE_ENABLED);  // "can", as the H200 says it
}
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t* mode) {
  KRUX_SIM_NVML_CARD(device);
  return Give(mode, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t* mode) {
  KRUX_SIM_NVML_CARD(device);
  return Give(mode, NVML_FEATURE_DISABLED);
}
nvmlReturn_t nvmlDeviceGetAccountingBufferSize(nvmlDevice_t device, unsigned int* size) {
  KRUX_SIM_NVML_CARD(device);
  return Give(size, 4000U);
}
nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device,
                                             nvmlGpuVirtualizationMode_t* mode) {
  KRUX_SIM_NVML_CARD(device);
  return Give(mode, NVML_GPU_VIRTUALIZATION_MODE_NONE);
}
nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned int* is_on,
                                          unsigned int* is_default) {
  KRUX_SIM_NVML_CARD(device);
  if (is_on == nullptr || is_default == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *is_on = 1;
  *is_default = 1;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char* version) {
  KRUX_SIM_NVML_CARD(device);
  return CopyText(state->data().driver_name, version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE);
}
nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t* out) {
  KRUX_SIM_NVML_STATE(state);
  return Give(out, nvmlConfComputeSystemState_t{});
}

}  // extern "C"
