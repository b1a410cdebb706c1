// The small part of NVML that the limiter answers itself (nvml.cc). Its types are declared here:
// the CUDA toolkit's include folder has no nvml.h.
// Thread-safe.
#ifndef KRUX_LIMITER_ENTRY_NVML_HOOKS_H_
#define KRUX_LIMITER_ENTRY_NVML_HOOKS_H_

#include <cstdint>

namespace krux::limiter {

// The entry for a handled NVML name; nullptr for others.
void* FindNvmlHook(const char* name);

using NvmlDevice = void*;
using NvmlReturn = int;
constexpr NvmlReturn kNvmlSuccess = 0, kNvmlInvalidArgument = 2, kNvmlNotSupported = 3,
                     kNvmlNoPermission = 4, kNvmlNotFound = 6, kNvmlInsufficientSize = 7,
                     kNvmlFunctionNotFound = 13, kNvmlVersionMismatch = 25;

struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlMemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
  static constexpr unsigned kVersion = 40 | 2U << 24;
};
static_assert(sizeof(NvmlMemoryV2) == 40);

struct NvmlUtilization {
  unsigned gpu, memory;  // percent
};

struct NvmlProcessSample {
  unsigned pid;
  unsigned long long time_stamp;  // microseconds since 1970
  unsigned sm, memory, encoder, decoder;
};

struct NvmlProcessV1 {
  unsigned pid;
  unsigned long long used_memory;
};
struct NvmlProcessV2 {  // versions 2 and 3
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_ENTRY_NVML_HOOKS_H_
