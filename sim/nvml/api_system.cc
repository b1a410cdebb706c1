// NVML: start and end, the system, handles and identity of devices.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>

#include "sim/nvml/library.h"

using krux::sim::CopyText;
using krux::sim::HandleOf;

namespace {

// By nvmlReturn_t, as the library says them.
constexpr const char* kErrorTexts[] = {
    "Success",
    "Uninitialized",
    "Invalid Argument",
    "Not Supported",
    "Insufficient Permissions",
    "Already Initialized",
    "Not Found",
    "Insufficient Size",
    "Insufficient External Power",
    "Driver Not Loaded",
    "Timeout",
    "Interrupt Request Issue",
    "NVML Shared Library Not Found",
    "Function Not Found",
    "Corrupted infoROM",
    "GPU is lost",
    "GPU requires reset",
    "GPU access blocked by the operating system",
    "Driver/library version mismatch",
    "In use by another client",
    "Insufficient Memory",
    "No data",
    "vGPU ECC not supported",
    "Insufficient Resources",
    "Invalid Frequency",
    "Argument version mismatch",
    "Requested functionality has been deprecated",
    "System is not in ready state",
    "No supported GPUs were found",
    "Resource not in correct state to perform requested operation",
    "Reset type is not supported for given device",
};

// As the driver reads "domain:bus:device.function": the domain may have 8 digits, 4, or be left
// out.
bool ParseBusId(const char* text, unsigned int* domain, unsigned int* bus) {
  unsigned int device = 0;
  unsigned int function = 0;
  *domain = 0;
  if (std::sscanf(text, "%x:%x:%x.%x", domain, bus, &device, &function) >= 3) return true;
  *domain = 0;
  return std::sscanf(text, "%x:%x.%x", bus, &device, &function) >= 2;
}

}  // namespace

extern "C" {

nvmlReturn_t nvmlInit_v2() { return krux::sim::InitLibrary(); }
nvmlReturn_t nvmlInit() { return krux::sim::InitLibrary(); }
nvmlReturn_t nvmlInitWithFlags(unsigned int) { return krux::sim::InitLibrary(); }
nvmlReturn_t nvmlShutdown() { return krux::sim::ShutdownLibrary(); }

const char* nvmlErrorString(nvmlReturn_t result) {
  const auto number = static_cast<size_t>(result);
  return number < std::size(kErrorTexts) ? kErrorTexts[number] : "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* out, unsigned int size) {
  KRUX_SIM_NVML_STATE(state);
  return CopyText(state->data().driver_name, out, size);
}

// The library's own version: it tells it before its start too.
nvmlReturn_t nvmlSystemGetNVMLVersion(char* out, unsigned int size) {
  krux::sim::SharedState* const state = krux::sim::OpenState();
  if (state == nullptr) return NVML_ERROR_DRIVER_NOT_LOADED;
  if (const auto fault = krux::sim::FaultAt(state, __func__); fault.has_value()) {
    return static_cast<nvmlReturn_t>(*fault);
  }
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
  if (out == nullptr || size == 0) return NVML_ERROR_INVALID_ARGUMENT;
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
  if (state->card(card).health.lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
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
    if (state->card(card).health.lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
    *out = HandleOf(card);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* out) {
  KRUX_SIM_NVML_STATE(state);
  if (bus_id == nullptr || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned int domain = 0;
  unsigned int bus = 0;
  if (!ParseBusId(bus_id, &domain, &bus)) return NVML_ERROR_INVALID_ARGUMENT;
  for (const uint32_t card : state->visible_cards()) {
    if (domain != 0 || state->card(card).pci_bus != bus) continue;
    if (state->card(card).health.lost.load() != 0) return NVML_ERROR_GPU_IS_LOST;
    *out = HandleOf(card);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvmlDevice_t* out) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, out);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char* serial, nvmlDevice_t* out) {
  KRUX_SIM_NVML_STATE(state);
  if (serial == nullptr || out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (const uint32_t card : state->visible_cards()) {
    char text[32];
    const nvmlReturn_t result = nvmlDeviceGetSerial(HandleOf(card), text, sizeof text);
    if (result != NVML_SUCCESS || std::string(text) != serial) continue;
    *out = HandleOf(card);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t* info, unsigned int length) {
  KRUX_SIM_NVML_STATE(state);
  if (info == nullptr || info->version != nvmlSystemDriverBranchInfo_v1) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  const std::string version = state->data().driver_name;
  const std::string branch = "r" + version.substr(0, version.find('.')) + "_00";
  return CopyText(branch, info->branch, std::min<unsigned int>(length, sizeof info->branch));
}

nvmlReturn_t nvmlSystemGetHicVersion(unsigned int* count, nvmlHwbcEntry_t*) {
  KRUX_SIM_NVML_STATE(state);
  return krux::sim::Give(count, 0U);
}

nvmlReturn_t nvmlUnitGetCount(unsigned int* count) {
  KRUX_SIM_NVML_STATE(state);
  return krux::sim::Give(count, 0U);
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int* count) {
  KRUX_SIM_NVML_STATE(state);
  return krux::sim::Give(count, 0U);
}
nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int* count);
nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int* count) {
  return nvmlGetExcludedDeviceCount(count);
}

}  // extern "C"
