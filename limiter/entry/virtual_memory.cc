// Virtual memory management: physical memory is charged when it is made; addresses cost nothing.
#include "limiter/entry/entry.h"

namespace {

using namespace krux::limiter;

CUresult CreateCharged(CUmemGenericAllocationHandle* handle, size_t bytes,
                       const CUmemAllocationProp* properties, unsigned long long flags,
                       uint32_t gpu) {
  Process& self = Self();
  const uint64_t size = OwnBytes(bytes);
  if (!ChargeOrTrim(gpu, size)) return CUDA_ERROR_OUT_OF_MEMORY;
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

// Memory that left this process may live on in another one: the agent finds out.
void AskToSettle(uint32_t gpus) {
  for (uint32_t gpu = 0; gpus >> gpu != 0; ++gpu) {
    if ((gpus >> gpu & 1) != 0) Self().link.Send(krux::wire::EventKind::kContextMade, gpu, 0);
  }
}

uint64_t ResourceOf(const CUarrayMapInfo& info) {
  return info.resourceType == CU_RESOURCE_TYPE_ARRAY
             ? reinterpret_cast<uint64_t>(info.resource.array)
             : reinterpret_cast<uint64_t>(info.resource.mipmap);
}

// A number for the part of the array that is mapped.
uint64_t PlaceOf(const CUarrayMapInfo& info) {
  uint64_t place = static_cast<uint64_t>(info.subresourceType) + 1;
  const auto mix = [&place](uint64_t value) { place = MixBits(place ^ value) + value; };
  if (info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
    mix(info.subresource.miptail.layer);
    mix(info.subresource.miptail.offset);
    return place;
  }
  const auto& level = info.subresource.sparseLevel;
  for (const unsigned value :
       {level.level, level.layer, level.offsetX, level.offsetY, level.offsetZ}) {
    mix(value);
  }
  return place;
}

// Memory in a sparse array stays while it is mapped there, whoever has released it; an unmapping
// counts when the stream has come to it.
void OnMapArray(const CUarrayMapInfo* mappings, unsigned count, CUstream stream) {
  PhysicalHandles& physical = Self().physical;
  bool waited = false;
  for (unsigned i = 0; mappings != nullptr && i < count; ++i) {
    const CUarrayMapInfo& info = mappings[i];
    if (info.memOperationType == CU_MEM_OPERATION_TYPE_MAP) {
      physical.OnPin(ResourceOf(info), PlaceOf(info), info.memHandle.memHandle);
      continue;
    }
    if (!waited) Real().cuStreamSynchronize(stream);
    waited = true;
    AskToSettle(physical.OnUnpin(ResourceOf(info), PlaceOf(info)));
  }
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
  if (guard.active() && result == CUDA_SUCCESS) AskToSettle(Self().physical.OnRelease(handle));
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
  if (guard.active() && result == CUDA_SUCCESS) {
    AskToSettle(Self().physical.OnUnmap(address, bytes));
  }
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

// An importer is not charged: the process that made the memory is.
CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemExportToShareableHandle(shareable, handle, type, flags);
  if (guard.active() && result == CUDA_SUCCESS) Self().physical.OnExport(handle);
  return result;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo* mappings, unsigned int count, CUstream stream) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemMapArrayAsync(mappings, count, stream);
  if (guard.active() && result == CUDA_SUCCESS) {
    OnMapArray(mappings, count, Streams::Resolve(stream, DefaultStream::kLegacy));
  }
  return result;
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo* mappings, unsigned int count, CUstream stream) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemMapArrayAsync_ptsz(mappings, count, stream);
  if (guard.active() && result == CUDA_SUCCESS) {
    OnMapArray(mappings, count, Streams::Resolve(stream, DefaultStream::kPerThread));
  }
  return result;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t memory_offset, size_t size,
                            unsigned long long flags) {
  const EntryGuard guard;
  const CUresult result =
      Real().cuMulticastBindMem(multicast, offset, memory, memory_offset, size, flags);
  if (guard.active() && result == CUDA_SUCCESS) Self().physical.OnPin(multicast, offset, memory);
  return result;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t offset,
                             CUdeviceptr address, size_t size, unsigned long long flags) {
  const EntryGuard guard;
  const CUresult result = Real().cuMulticastBindAddr(multicast, offset, address, size, flags);
  if (guard.active() && result == CUDA_SUCCESS) {
    Self().physical.OnPin(multicast, offset, Self().physical.HandleAt(address));
  }
  return result;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle multicast, CUdevice device, size_t offset,
                           size_t size) {
  const EntryGuard guard;
  const CUresult result = Real().cuMulticastUnbind(multicast, device, offset, size);
  if (guard.active() && result == CUDA_SUCCESS) {
    AskToSettle(Self().physical.OnUnpin(multicast, offset));
  }
  return result;
}
