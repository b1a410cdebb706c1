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

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  const EntryGuard guard;
  if (!guard.active() || free_bytes == nullptr || total_bytes == nullptr) {
    return Real().cuMemGetInfo_v2(free_bytes, total_bytes);
  }
  Process& self = Self();
  const CUresult result = Real().cuMemGetInfo_v2(free_bytes, total_bytes);
  const uint32_t gpu = self.devices.CurrentGpu();
  if (result != CUDA_SUCCESS || gpu == Devices::kNotGranted) return result;
  if (self.pools.shrinking()) self.pools.SettleAll();
  *total_bytes = TotalBytes(gpu);
  *free_bytes = std::min<uint64_t>(*free_bytes, self.account.Free(gpu));
  return result;
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
