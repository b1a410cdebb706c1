// Virtual memory management: physical memory is charged when it is made; addresses cost nothing.
#include "limiter/entry/entry.h"
#include "limiter/life/log.h"

namespace {

using namespace krux::limiter;

CUresult CreateCharged(CUmemGenericAllocationHandle* handle, size_t bytes,
                       const CUmemAllocationProp* properties, unsigned long long flags,
                       uint32_t gpu) {
  Process& self = Self();
  const uint64_t size = OwnBytes(bytes);
  if (!self.account.Charge(gpu, size) &&
      !(self.pools.TrimAll(gpu) && self.account.Charge(gpu, size))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = Real().cuMemCreate(handle, bytes, properties, flags);
  if (result != CUDA_SUCCESS) {
    self.account.Return(gpu, size);
    return result;
  }
  if (self.physical.Add(*handle, gpu, size)) return CUDA_SUCCESS;
  Real().cuMemRelease(*handle);
  self.account.Return(gpu, size);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

// The location's number is a device only where its type says so.
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  const auto pass = [&] { return Real().cuMemCreate(handle, bytes, properties, flags); };
  const EntryGuard guard;
  if (!guard.active() || handle == nullptr || properties == nullptr) return pass();
  switch (properties->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: {
      const uint32_t gpu = Self().devices.GpuOf(properties->location.id);
      if (gpu == Devices::kNotGranted) return CUDA_ERROR_INVALID_DEVICE;
      return CreateCharged(handle, bytes, properties, flags, gpu);
    }
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return pass();
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemRelease(handle);
  if (guard.active() && result == CUDA_SUCCESS) Self().physical.OnRelease(handle);
  return result;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemMap(address, bytes, offset, handle, flags);
  if (guard.active() && result == CUDA_SUCCESS) Self().physical.OnMap(address, bytes, handle);
  return result;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemUnmap(address, bytes);
  if (guard.active() && result == CUDA_SUCCESS) Self().physical.OnUnmap(address, bytes);
  return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemRetainAllocationHandle(handle, address);
  if (guard.active() && result == CUDA_SUCCESS) {
    Self().physical.OnRetain(*handle, reinterpret_cast<uint64_t>(address));
  }
  return result;
}
