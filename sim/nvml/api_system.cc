// NVML: start and end, the system, handles and identity of devices.
#include <strings.h>
#include <cstdio>
#include <cstring>

#include "sim/nvml/library.h"

using krux::sim::Card;
using krux::sim::CopyText;
using krux::sim::HandleOf;

extern "C" {

nvmlReturn_t nvmlInit_v2() { return krux::sim::InitLibrary(); }
nvmlReturn_t nvmlInit() { return krux::sim::InitLibrary(); }
nvmlReturn_t nvmlInitWithFlags(unsigned int) { return krux::sim::InitLibrary(); }
nvmlReturn_t nvmlShutdown() { return krux::sim::ShutdownLibrary(); }

const char* nvmlErrorString(nvmlReturn_t result) {
  switch (result) {
    case NVML_SUCCESS:
      return "Success";
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT:
      return "Timeout";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    default:
      return "Unknown Error";
  }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* out, unsigned int size) {
  KRUX_SIM_NVML_STATE(state);
  return CopyText(state->data().driver_name, out, size);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char* out, unsigned int size) {
  KRUX_SIM_NVML_STATE(state);
  return CopyText(std::string("13.") + state->data().driver_name, out, size);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  KRUX_SIM_NVML_STATE(state);
  if (version == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *version = static_cast<int>(state->data().driver_version);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char* out, unsigned int size) {
  KRUX_SIM_NVML_STATE(state);
  if (out == nullptr || size == 0 || state == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
  FILE* file = std::fopen(path, "re");
  if (file == nullptr) return NVML_ERROR_NOT_FOUND;
  char text[1024];
  const size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[length] = '\0';
  std::snprintf(out, size, "%s", text);  // the first word: arguments are parted by zeros
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  KRUX_SIM_NVML_STATE(state);
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = static_cast<unsigned int>(state->visible_cards().size());
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCount(unsigned int* count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* out) {
  KRUX_SIM_NVML_STATE(state);
  if (out == nullptr || index >= state->visible_cards().size()) return NVML_ERROR_INVALID_ARGUMENT;
  const uint32_t card = state->visible_cards()[index];
  if (state->card(card).lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
  *out = HandleOf(card);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* out) {
  KRUX_SIM_NVML_STATE(state);
  if (uuid == nullptr || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (const uint32_t card : state->visible_cards()) {
    if (krux::sim::UuidText(state->card(card)) != uuid) continue;
    if (state->card(card).lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
    *out = HandleOf(card);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* out) {
  KRUX_SIM_NVML_STATE(state);
  if (bus_id == nullptr || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (const uint32_t card : state->visible_cards()) {
    const std::string text = krux::sim::PciText(state->card(card));
    // The domain may be written with 8 digits, with 4, or not at all.
    if (strcasecmp(text.c_str(), bus_id) != 0 && strcasecmp(text.c_str() + 4, bus_id) != 0 &&
        strcasecmp(text.c_str() + 9, bus_id) != 0) {
      continue;
    }
    *out = HandleOf(card);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, out);
}

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
  return CopyText(state->card(card_index).name, out, size);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* out, unsigned int size) {
  KRUX_SIM_NVML_CARD(device);
  return CopyText(krux::sim::UuidText(state->card(card_index)), out, size);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int* minor) {
  KRUX_SIM_NVML_CARD(device);
  if (minor == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *minor = card_index;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char* out, unsigned int size) {
  KRUX_SIM_NVML_CARD(device);
  char text[24];
  std::snprintf(text, sizeof text, "16500000000%02u", card_index);
  return state == nullptr ? NVML_ERROR_UNINITIALIZED : CopyText(text, out, size);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  KRUX_SIM_NVML_CARD(device);
  if (pci == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  const Card& card = state->card(card_index);
  std::memset(pci, 0, sizeof *pci);
  pci->bus = card.pci_bus;
  pci->pciDeviceId = 0x233510de;
  pci->pciSubSystemId = 0x18be10de;
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
  *major = static_cast<int>(state->card(card_index).compute_major);
  *minor = static_cast<int>(state->card(card_index).compute_minor);
  return NVML_SUCCESS;
}

}  // extern "C"
