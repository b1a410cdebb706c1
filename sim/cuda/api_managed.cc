// Managed memory: advice, prefetch, and what is known of a range.
#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"

using krux::sim::Allocation;
using krux::sim::Context;
using krux::sim::FindDevice;
using krux::sim::FindStream;
using krux::sim::MemoryKind;
using krux::sim::TheHostMemory;

namespace {

// The managed allocation that holds all of the range.
bool FindManaged(CUdeviceptr address, size_t bytes, Allocation* allocation) {
  return bytes != 0 && TheHostMemory().Find(address, allocation) &&
         allocation->kind == MemoryKind::kManaged &&
         bytes <= allocation->bytes - (address - allocation->address);
}

bool IsHost(CUmemLocationType type) {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}
bool IsPlace(const CUmemLocation& location) {
  return IsHost(location.type) ||
         (location.type == CU_MEM_LOCATION_TYPE_DEVICE && FindDevice(location.id) != nullptr);
}
CUdevice PlaceOf(const CUmemLocation& location) {
  return IsHost(location.type) ? CU_DEVICE_CPU : location.id;
}

CUmemLocation LocationOf(CUdevice device) {
  CUmemLocation location{};
  location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  return location;
}

}  // namespace

CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
                                       unsigned int flags, CUstream stream) {
  KRUX_SIM_CONTEXT(context);
  if (FindStream(stream, context) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Allocation allocation;
  if (flags != 0 || !FindManaged(address, bytes, &allocation)) return CUDA_ERROR_INVALID_VALUE;
  if (!IsPlace(location)) return CUDA_ERROR_INVALID_DEVICE;
  TheHostMemory().Change(address, [&](Allocation& a) { a.prefetched = PlaceOf(location); });
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) TheHostMemory().TouchOnDevice(address);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device,
                                    CUstream stream) {
  return cuMemPrefetchAsync_v2(address, bytes, LocationOf(device), 0, stream);
}

CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                                CUmemLocation location) {
  KRUX_SIM_CONTEXT(context);
  Allocation allocation;
  const bool has_place = advice != CU_MEM_ADVISE_SET_READ_MOSTLY &&
                         advice != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
                         advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
  if (context == nullptr || advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
      advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY || !FindManaged(address, bytes, &allocation) ||
      (has_place && !IsPlace(location))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  TheHostMemory().Change(address, [&](Allocation& a) {
    if (advice == CU_MEM_ADVISE_SET_READ_MOSTLY) a.is_read_mostly = true;
    if (advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY) a.is_read_mostly = false;
    if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION) a.preferred = PlaceOf(location);
    if (advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION) a.preferred = CU_DEVICE_INVALID;
  });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                             CUdevice device) {
  return cuMemAdvise_v2(address, bytes, advice, LocationOf(device));
}

CUresult CUDAAPI cuMemRangeGetAttribute(void* out, size_t out_bytes,
                                        CUmem_range_attribute attribute, CUdeviceptr address,
                                        size_t bytes) {
  KRUX_SIM_CONTEXT(context);
  Allocation allocation;
  if (context == nullptr || out == nullptr || out_bytes != sizeof(int) ||
      !FindManaged(address, bytes, &allocation)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* value = static_cast<int*>(out);
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      *value = allocation.is_read_mostly ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      *value = allocation.preferred;
      return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      *value = allocation.prefetched;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}
