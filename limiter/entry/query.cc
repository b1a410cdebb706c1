// What programs see of the card's memory: a card of the size of their limit, on which only their
// own container is.
#include <algorithm>

#include "limiter/entry/entry.h"

namespace {

using namespace krux::limiter;

uint64_t TotalBytes(uint32_t gpu) {
  const uint64_t physical =
      Self().limits->gpus[gpu].memory_physical_bytes.load(std::memory_order_acquire);
  const uint64_t limit = Self().account.Limit(gpu);
  return physical == 0 ? limit : std::min(limit, physical);
}

unsigned int Clipped(uint64_t bytes) {
  return static_cast<unsigned int>(std::min<uint64_t>(bytes, UINT32_MAX));
}

}  // namespace

// The driver is not asked: what it would say is the whole card's, and takes it microseconds.
CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  const EntryGuard guard;
  if (!guard.active() || free_bytes == nullptr || total_bytes == nullptr) {
    return Real().cuMemGetInfo_v2(free_bytes, total_bytes);
  }
  Process& self = Self();
  const uint32_t gpu = self.devices.CurrentGpu();
  if (gpu == Devices::kNotGranted || CurrentContextNumber() == 0) {
    return Real().cuMemGetInfo_v2(free_bytes, total_bytes);
  }
  if (self.pools.shrinking()) self.pools.SettleAll();
  *total_bytes = TotalBytes(gpu);
  *free_bytes = std::min<uint64_t>(*total_bytes, self.account.Free(gpu));
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned int* free_bytes, unsigned int* total_bytes) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemGetInfo(free_bytes, total_bytes);
  if (!guard.active() || result != CUDA_SUCCESS) return result;
  const uint32_t gpu = Self().devices.CurrentGpu();
  if (gpu == Devices::kNotGranted) return result;
  *total_bytes = Clipped(TotalBytes(gpu));
  *free_bytes = std::min(*free_bytes, Clipped(Self().account.Free(gpu)));
  return result;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  const EntryGuard guard;
  const CUresult result = Real().cuDeviceTotalMem_v2(bytes, device);
  if (!guard.active() || result != CUDA_SUCCESS) return result;
  const uint32_t gpu = Self().devices.GpuOf(device);
  if (gpu != Devices::kNotGranted) *bytes = TotalBytes(gpu);
  return result;
}

CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice device) {
  const EntryGuard guard;
  const CUresult result = Real().cuDeviceTotalMem(bytes, device);
  if (!guard.active() || result != CUDA_SUCCESS) return result;
  const uint32_t gpu = Self().devices.GpuOf(device);
  if (gpu != Devices::kNotGranted) *bytes = Clipped(TotalBytes(gpu));
  return result;
}
