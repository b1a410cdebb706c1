// Stream-ordered memory. A captured allocation would become a node of a graph, whose memory is not
// counted yet: it is refused.
#include "limiter/entry/entry.h"
#include "limiter/life/log.h"

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
    LogLine("stream-ordered allocations in a captured graph are refused: not counted yet");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const uint32_t current = self.devices.CurrentGpu();
  if (current == Devices::kNotGranted || pool == nullptr || address == nullptr) return call();
  const uint32_t gpu = self.pools.GpuOf(pool, current);
  if (gpu == Pools::kOnHost) return call();
  uint64_t growth = 0;
  if (!self.pools.BeforeAllocation(pool, gpu, bytes, &growth)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  const bool fits = self.pools.AfterAllocation(pool, gpu, growth);
  if (result != CUDA_SUCCESS || fits) return result;
  Real().cuMemFreeAsync(*address, stream);
  *address = 0;
  self.pools.TrimAll(gpu);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Call>
CUresult FreeToPool(CUdeviceptr address, Call call) {
  Self().pools.NoteFree();
  return ChargedFree(address, call);
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
  uint32_t gpu = Pools::kOnHost;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    gpu = Self().devices.GpuOf(location.id);
    if (gpu == Devices::kNotGranted) return CUDA_ERROR_INVALID_DEVICE;
  }
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    LogLine("pools of managed memory are refused: not counted yet");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const CUresult result = Real().cuMemPoolCreate(pool, properties);
  if (result == CUDA_SUCCESS) Self().pools.OnCreate(*pool, gpu);
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
