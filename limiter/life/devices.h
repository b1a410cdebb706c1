// Which GPU of the pages a CUDA device is. CUDA_VISIBLE_DEVICES may hide and reorder devices, so
// they are matched by UUID, once, after cuInit. A device that the pages do not have was not
// granted: no context is made on it.
// Thread rule: Find is called once, under the start lock; the rest is read-only after it.
#ifndef KRUX_LIMITER_LIFE_DEVICES_H_
#define KRUX_LIMITER_LIFE_DEVICES_H_

#include <cstdint>

#include "limiter/driver/cuda_api.h"
#include "limiter/life/problem.h"
#include "protocol/pages.h"

namespace krux::limiter {

class Devices {
 public:
  static constexpr uint32_t kNotGranted = UINT32_MAX;

  // Asks the driver. A problem when none of its devices is granted.
  Problem Find(const LimitsPage& limits);

  uint32_t GpuOf(CUdevice device) const {
    return device >= 0 && device < kMostDevices ? gpu_of_[device] : kNotGranted;
  }
  // The GPU of the calling thread's current context; kNotGranted when it has none.
  uint32_t CurrentGpu() const;

 private:
  static constexpr CUdevice kMostDevices = 64;
  uint32_t gpu_of_[kMostDevices] = {};
  uint32_t only_gpu_ = kNotGranted;  // set when there is just one device
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_DEVICES_H_
