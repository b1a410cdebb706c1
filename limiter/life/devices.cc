#include "limiter/life/devices.h"

#include <cstring>

#include "limiter/driver/driver.h"

namespace krux::limiter {
namespace {

uint32_t FindUuid(const LimitsPage& limits, const CUuuid& uuid) {
  static_assert(sizeof uuid.bytes == sizeof limits.gpus[0].uuid);
  for (uint32_t gpu = 0; gpu < limits.gpu_count; ++gpu) {
    if (memcmp(limits.gpus[gpu].uuid, uuid.bytes, sizeof uuid.bytes) == 0) return gpu;
  }
  return Devices::kNotGranted;
}

}  // namespace

Problem Devices::Find(const LimitsPage& limits) {
  for (uint32_t& gpu : gpu_of_) gpu = kNotGranted;
  int count = 0;
  if (Real().cuDeviceGetCount(&count) != CUDA_SUCCESS) {
    return Problem::Because("the driver does not tell its devices");
  }
  int granted = 0;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CUdevice device = -1;
    CUuuid uuid{};
    if (Real().cuDeviceGet(&device, ordinal) != CUDA_SUCCESS || device < 0 ||
        device >= kMostDevices || Real().cuDeviceGetUuid_v2(&uuid, device) != CUDA_SUCCESS) {
      continue;
    }
    gpu_of_[device] = FindUuid(limits, uuid);
    if (gpu_of_[device] == kNotGranted) continue;
    ++granted;
    only_gpu_ = gpu_of_[device];
  }
  if (count != 1 || granted != 1) only_gpu_ = kNotGranted;
  // CUDA_VISIBLE_DEVICES="" is the program's own wish.
  if (count > 0 && granted == 0) {
    return Problem::Because("none of the %d devices that the driver shows was granted", count);
  }
  return Problem::None();
}

uint32_t Devices::CurrentGpu() const {
  if (only_gpu_ != kNotGranted) return only_gpu_;
  CUdevice device = -1;
  return Real().cuCtxGetDevice(&device) == CUDA_SUCCESS ? GpuOf(device) : kNotGranted;
}

}  // namespace krux::limiter
