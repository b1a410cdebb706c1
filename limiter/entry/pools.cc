// Stream-ordered memory: pools are charged by what they reserve. A captured allocation becomes a
// node of a graph and is charged with the graph (graphs.cc).
#include "limiter/entry/entry.h"

namespace {

using namespace krux::limiter;

CUmemoryPool CurrentPool() {
  CUdevice device = -1;
  CUmemoryPool pool = nullptr;
  if (Real().cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      Real().cuDeviceGetMemPool(&pool, device) != CUDA_SUCCESS) {
    return nullptr;
  }
  return pool;
}

template <typename Call>
CUresult AllocateFromPool(CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream,
                          DefaultStream default_stream, Call call) {
  Process& self = Self();
  stream = Streams::Resolve(stream, default_stream);
  if (self.captures.load(std::memory_order_relaxed) != 0 && IsCapturing(stream)) {
    self.graph_memory.NoteNode();
    return call();
  }
  const uint32_t current = self.devices.CurrentGpu();
  if (current == Devices::kNotGranted || pool == nullptr || address == nullptr) return call();
  const Pools::Place place = self.pools.PlaceOf(pool, current);
  if (place.gpu == Pools::kOnHost) return call();
  uint64_t growth = 0;
  if (!self.pools.BeforeAllocation(pool, place, bytes, &growth)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  const bool fits = self.pools.AfterAllocation(pool, place.gpu, growth);
  if (result != CUDA_SUCCESS || fits) return result;
  Real().cuMemFreeAsync(*address, stream);
  *address = 0;
  self.pools.TrimAll(place.gpu);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Call>
CUresult FreeToPool(CUdeviceptr address, Call call) {
  Self().pools.NoteFree();
  return ChargedFree(address, call);
}

// Notes where a pool's memory is, so that what it reserves is charged there or not at all.
void NotePool(CUmemoryPool pool, const CUmemLocation& location, CUmemAllocationType type) {
  uint32_t gpu = Pools::kOnHost;
  const bool is_managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    gpu = Self().devices.GpuOf(location.id);
  } else if (is_managed) {
    gpu = Self().devices.CurrentGpu();
  }
  if (gpu == Devices::kNotGranted) gpu = Pools::kOnHost;
  Self().pools.OnCreate(pool, {gpu, is_managed});
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  const auto call = [&] { return Real().cuMemAllocAsync(address, bytes, stream); };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return AllocateFromPool(address, bytes, CurrentPool(), stream, DefaultStream::kLegacy, call);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t bytes, CUstream stream) {
  const auto call = [&] { return Real().cuMemAllocAsync_ptsz(address, bytes, stream); };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return AllocateFromPool(address, bytes, CurrentPool(), stream, DefaultStream::kPerThread, call);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  const auto call = [&] { return Real().cuMemAllocFromPoolAsync(address, bytes, pool, stream); };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return AllocateFromPool(address, bytes, pool, stream, DefaultStream::kLegacy, call);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
  const auto call = [&] {
    return Real().cuMemAllocFromPoolAsync_ptsz(address, bytes, pool, stream);
  };
  const EntryGuard guard;
  if (!guard.active()) return call();
  return AllocateFromPool(address, bytes, pool, stream, DefaultStream::kPerThread, call);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuMemFreeAsync(address, stream);
  return FreeToPool(address, [&] { return Real().cuMemFreeAsync(address, stream); });
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuMemFreeAsync_ptsz(address, stream);
  return FreeToPool(address, [&] { return Real().cuMemFreeAsync_ptsz(address, stream); });
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  const EntryGuard guard;
  if (!guard.active() || pool == nullptr || properties == nullptr) {
    return Real().cuMemPoolCreate(pool, properties);
  }
  const CUmemLocation& location = properties->location;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
      Self().devices.GpuOf(location.id) == Devices::kNotGranted) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  const CUresult result = Real().cuMemPoolCreate(pool, properties);
  if (result == CUDA_SUCCESS) NotePool(*pool, location, properties->allocType);
  return result;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                CUmemAllocationType type) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemGetDefaultMemPool(pool, location, type);
  if (guard.active() && result == CUDA_SUCCESS) NotePool(*pool, *location, type);
  return result;
}

CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemGetMemPool(pool, location, type);
  if (guard.active() && result == CUDA_SUCCESS) NotePool(*pool, *location, type);
  return result;
}

// Memory of another process, which pays for it.
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool, void* handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemPoolImportFromShareableHandle(pool, handle, type, flags);
  if (guard.active() && result == CUDA_SUCCESS) {
    Self().pools.OnCreate(*pool, {Pools::kOnHost, false});
  }
  return result;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuMemPoolDestroy(pool);
  const bool had_memory = Pools::HasMemoryInUse(pool);
  const CUresult result = Real().cuMemPoolDestroy(pool);
  if (result == CUDA_SUCCESS) Self().pools.OnDestroy(pool, had_memory);
  return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_to_keep) {
  const EntryGuard guard;
  const CUresult result = Real().cuMemPoolTrimTo(pool, bytes_to_keep);
  if (guard.active()) Self().pools.SettleAll();
  return result;
}
