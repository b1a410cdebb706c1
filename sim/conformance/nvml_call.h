// How the NVML cases call: by name, with the layouts of NVML 13 (nvml.h is in no package that the
// project builds with).
#ifndef KRUX_SIM_CONFORMANCE_NVML_CALL_H_
#define KRUX_SIM_CONFORMANCE_NVML_CALL_H_

#include <unistd.h>

#include <string>

#include "sim/conformance/case.h"

namespace krux::sim::conformance {

using NvmlDevice = void*;

struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlMemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

// The version word of a versioned struct of NVML.
constexpr unsigned NvmlVersion(size_t bytes, unsigned version) {
  return static_cast<unsigned>(bytes) | version << 24;
}

// "OK", "INVALID_ARGUMENT", ...
std::string NvmlName(int result);

NvmlDevice NvmlFirstDevice();
// The device's used memory; what it attributes to this process (-1: not listed).
long long NvmlUsed();
long long NvmlUsedBy(pid_t pid);

}  // namespace krux::sim::conformance

#endif  // KRUX_SIM_CONFORMANCE_NVML_CALL_H_
