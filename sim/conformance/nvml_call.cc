#include "sim/conformance/nvml_call.h"

#include <iterator>
#include <vector>

namespace krux::sim::conformance {

std::string NvmlName(int result) {
  static constexpr const char* kNames[] = {"OK",
                                           "UNINITIALIZED",
                                           "INVALID_ARGUMENT",
                                           "NOT_SUPPORTED",
                                           "NO_PERMISSION",
                                           "ALREADY_INITIALIZED",
                                           "NOT_FOUND",
                                           "INSUFFICIENT_SIZE",
                                           "INSUFFICIENT_POWER",
                                           "DRIVER_NOT_LOADED",
                                           "TIMEOUT",
                                           "IRQ_ISSUE",
                                           "LIBRARY_NOT_FOUND",
                                           "FUNCTION_NOT_FOUND",
                                           "CORRUPTED_INFOROM",
                                           "GPU_IS_LOST",
                                           "RESET_REQUIRED",
                                           "OPERATING_SYSTEM",
                                           "LIB_RM_VERSION_MISMATCH",
                                           "IN_USE",
                                           "MEMORY",
                                           "NO_DATA",
                                           "VGPU_ECC_NOT_SUPPORTED",
                                           "INSUFFICIENT_RESOURCES",
                                           "FREQ_NOT_SUPPORTED",
                                           "ARGUMENT_VERSION_MISMATCH",
                                           "DEPRECATED",
                                           "NOT_READY",
                                           "GPU_NOT_FOUND",
                                           "INVALID_STATE"};
  if (result == kNvmlMissing) return "MISSING";
  if (result == 999) return "UNKNOWN";
  if (result >= 0 && result < static_cast<int>(std::size(kNames))) return kNames[result];
  return "error" + std::to_string(result);
}

NvmlDevice NvmlFirstDevice() {
  NvmlDevice device = nullptr;
  CallNvml("nvmlDeviceGetHandleByIndex_v2", 0U, &device);
  return device;
}

long long NvmlUsed() {
  NvmlMemory memory{};
  CallNvml("nvmlDeviceGetMemoryInfo", NvmlFirstDevice(), &memory);
  return static_cast<long long>(memory.used);
}

long long NvmlUsedBy(pid_t pid) {
  std::vector<NvmlProcess> processes(64);
  unsigned count = 64;
  if (CallNvml("nvmlDeviceGetComputeRunningProcesses_v3", NvmlFirstDevice(), &count,
               processes.data()) != 0) {
    return -1;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (processes[i].pid == static_cast<unsigned>(pid)) {
      return static_cast<long long>(processes[i].used);
    }
  }
  return -1;
}

}  // namespace krux::sim::conformance
