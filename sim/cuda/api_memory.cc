// Linear, pitched, managed and host memory: cuMemAlloc and its kin. Pools, virtual memory and
// arrays have files of their own.
#include <algorithm>
#include <climits>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/shared_hold.h"
#include "sim/cuda/vmm.h"

using krux::sim::Allocation;
using krux::sim::CheckAllowedInCapture;
using krux::sim::Context;
using krux::sim::Device;
using krux::sim::MemoryKind;
using krux::sim::TheHostMemory;

CUresult CUDAAPI cuMemGetInfo_v2(size_t* free, size_t* total) {
  KRUX_SIM_CONTEXT(context);
  Device* device = context->device;
  krux::sim::RefundUnused();
  if (free != nullptr) *free = device->state()->FreeMemory(device->card_index());
  if (total != nullptr) *total = device->card().usable_bytes();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = CheckAllowedInCapture(); r != CUDA_SUCCESS) return r;
  return context->device->memory().Allocate(context, bytes, MemoryKind::kLinear, out);
}

// The first generation of the API has 32-bit addresses: nothing on a 64-bit card fits into them.
CUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1*, unsigned int) { return CUDA_ERROR_NOT_SUPPORTED; }

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                                    unsigned int element_bytes) {
  KRUX_SIM_CONTEXT(context);
  constexpr size_t kPitch = 512;
  if (out == nullptr || pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  *pitch = 0;
  if (width == 0 || height == 0 || width > SIZE_MAX / 2 ||
      (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult r = CheckAllowedInCapture(); r != CUDA_SUCCESS) return r;
  const size_t rounded = (width + kPitch - 1) / kPitch * kPitch;
  *pitch = rounded;
  if (height > SIZE_MAX / rounded) return CUDA_ERROR_OUT_OF_MEMORY;
  return context->device->memory().Allocate(context, rounded * height, MemoryKind::kLinear, out);
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr || bytes == 0 ||
      (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult r = CheckAllowedInCapture(); r != CUDA_SUCCESS) return r;
  void* pointer = nullptr;
  const CUresult result = TheHostMemory().Allocate(context, bytes, MemoryKind::kManaged, &pointer);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUdeviceptr>(pointer);
  return result;
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr address) {
  KRUX_SIM_CONTEXT(context);
  if (address == 0) return CUDA_SUCCESS;
  if (const CUresult r = CheckAllowedInCapture(); r != CUDA_SUCCESS) return r;
  Allocation allocation;
  if (!krux::sim::FindAllocation(address, &allocation) || allocation.address != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (allocation.is_global) return CUDA_ERROR_INVALID_VALUE;
  // As with the real driver, work that may use the memory ends before it goes.
  switch (allocation.kind) {
    case MemoryKind::kLinear:
      SynchronizeContext(allocation.context);
      return allocation.device->memory().Free(address);
    case MemoryKind::kPool:
      SynchronizeContext(context);
      return krux::sim::ForgetPoolBlock(allocation);
    case MemoryKind::kGraph:
      SynchronizeContext(context);
      return krux::sim::FreeGraphBlock(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case MemoryKind::kManaged:
      SynchronizeContext(allocation.context);
      return TheHostMemory().Free(reinterpret_cast<void*>(address), MemoryKind::kManaged);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  KRUX_SIM_CONTEXT(context);
  Allocation allocation;
  if (context == nullptr || !krux::sim::FindAllocation(address, &allocation) ||
      (allocation.kind == MemoryKind::kReserved && !krux::sim::IsMapped(address, 1))) {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (base != nullptr) *base = allocation.address;
  if (bytes != nullptr) *bytes = allocation.bytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (out == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = CheckAllowedInCapture(); r != CUDA_SUCCESS) return r;
  *out = nullptr;
  if (bytes == 0) return CUDA_SUCCESS;
  return TheHostMemory().Allocate(context, bytes, MemoryKind::kHost, out, flags);
}

CUresult CUDAAPI cuMemAllocHost_v2(void** out, size_t bytes) {
  return cuMemHostAlloc(out, bytes, 0);
}
CUresult CUDAAPI cuMemAllocHost(void** out, unsigned int bytes) {
  return cuMemHostAlloc(out, bytes, 0);
}

CUresult CUDAAPI cuMemFreeHost(void* pointer) {
  KRUX_SIM_CONTEXT(context);
  if (pointer == nullptr) return CUDA_SUCCESS;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SynchronizeContext(context);
  return TheHostMemory().Free(pointer, MemoryKind::kHost);
}

CUresult CUDAAPI cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  // Memory of other devices (IOMEMORY) is not there to be registered.
  constexpr unsigned kKnown =
      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
  if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  return TheHostMemory().Register(context, pointer, bytes, flags & CU_MEMHOSTREGISTER_PORTABLE);
}
CUresult CUDAAPI cuMemHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return cuMemHostRegister_v2(pointer, bytes, flags);
}

CUresult CUDAAPI cuMemHostUnregister(void* pointer) {
  KRUX_SIM_CONTEXT(context);
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  SynchronizeContext(context);
  return TheHostMemory().Unregister(pointer);
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  Allocation allocation;
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  if (out == nullptr || flags != 0 || context == nullptr ||
      !TheHostMemory().Find(address, &allocation)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  KRUX_SIM_CONTEXT(context);
  Allocation allocation;
  if (flags == nullptr || context == nullptr ||
      !TheHostMemory().Find(reinterpret_cast<CUdeviceptr>(pointer), &allocation)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *flags = allocation.flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}
