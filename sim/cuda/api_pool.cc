// Stream-ordered allocation and memory pools.
#include <algorithm>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/graph_node.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/pool.h"

using krux::sim::Allocation;
using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::Device;
using krux::sim::FindDevice;
using krux::sim::FindStream;
using krux::sim::MemoryKind;
using krux::sim::Pool;
using krux::sim::Stream;
using krux::sim::Work;

namespace {

CUresult CaptureAllocation(Stream* stream, size_t bytes, CUdeviceptr* out) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = {};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE,
                                   {stream->context->device->ordinal()}};
  parameters.bytesize = bytes;
  Work work;
  const CUresult result = krux::sim::AllocationWork(&parameters, &work);
  if (result != CUDA_SUCCESS) return result;
  *out = parameters.dptr;
  return krux::sim::Enqueue(stream, std::move(work));
}

bool IsFreedInStreams(MemoryKind kind) {
  return kind == MemoryKind::kPool || kind == MemoryKind::kLinear || kind == MemoryKind::kGraph;
}

CUresult AllocateAsync(CUdeviceptr* out, size_t bytes, CUstream handle, Pool* pool) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {
    *out = 0;
    return CUDA_SUCCESS;
  }
  if (stream->capture.load() != nullptr) return CaptureAllocation(stream, bytes, out);
  if (pool == nullptr) pool = krux::sim::CurrentPool(context->device);
  return AllocateFromPool(context, pool, bytes, out);
}

CUresult PoolAttribute(Pool* pool, CUmemPool_attribute attribute, void* value) {
  const std::lock_guard<std::mutex> lock(pool->mutex);
  auto* number = static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *number = pool->release_threshold;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *number = pool->reserved;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      *number = pool->reserved_high;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *number = pool->used + pool->forgotten;
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *number = pool->used_high;
      break;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) = 1;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return AllocateAsync(out, bytes, stream, nullptr);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool handle,
                                         CUstream stream) {
  KRUX_SIM_READY();
  Pool* pool = Checked<Pool>(handle);
  return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : AllocateAsync(out, bytes, stream, pool);
}

// The block goes back when the stream comes to this point; its addresses are refused from then on.
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (address == 0) return CUDA_SUCCESS;
  Allocation allocation;
  if (!krux::sim::FindAllocation(address, &allocation) || allocation.address != address ||
      !IsFreedInStreams(allocation.kind)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool is_of_graph = allocation.kind == krux::sim::MemoryKind::kGraph;
  if (stream->capture.load() != nullptr) {
    return is_of_graph ? krux::sim::Enqueue(stream, krux::sim::FreeWork(address))
                       : CUDA_ERROR_INVALID_VALUE;
  }
  if (is_of_graph) {
    return krux::sim::FreeGraphBlock(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (context->device->engine().IsEmpty(&stream->queue)) {
    return allocation.pool != nullptr ? FreePoolBlock(allocation)
                                      : allocation.device->memory().Free(address);
  }
  krux::sim::Operation operation;
  operation.action = krux::sim::MakeAction([allocation] {
    allocation.pool != nullptr ? FreePoolBlock(allocation)
                               : allocation.device->memory().Free(allocation.address);
  });
  return SubmitTo(stream, std::move(operation));
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  KRUX_SIM_READY();
  if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUmemLocationType place = properties->location.type;
  if ((properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED &&
       properties->allocType != CU_MEM_ALLOCATION_TYPE_MANAGED) ||
      place == CU_MEM_LOCATION_TYPE_INVALID || place > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Device* device = nullptr;
  if (place == CU_MEM_LOCATION_TYPE_DEVICE) {
    device = FindDevice(properties->location.id);
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = device->Attach(); r != CUDA_SUCCESS) return r;
  }
  Pool* pool = krux::sim::Make<Pool>();
  pool->device = device;
  pool->max_bytes = properties->maxSize;
  pool->is_shareable = properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
  krux::sim::RegisterPool(pool);
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle) {
  KRUX_SIM_READY();
  Pool* pool = Checked<Pool>(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& device : krux::sim::Devices()) {
    if (pool == krux::sim::DefaultPool(device.get())) return CUDA_ERROR_INVALID_VALUE;
  }
  krux::sim::ForgetPool(pool);
  const std::lock_guard<std::mutex> lock(pool->mutex);
  pool->TrimTo(0);
  pool->is_doomed = true;
  if (pool->live == 0) krux::sim::Bury(pool);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  KRUX_SIM_READY();
  Pool* pool = Checked<Pool>(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(pool->mutex);
  pool->TrimTo(keep);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                       void* value) {
  KRUX_SIM_READY();
  Pool* pool = Checked<Pool>(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return PoolAttribute(pool, attribute, value);
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                       void* value) {
  KRUX_SIM_READY();
  Pool* pool = Checked<Pool>(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(pool->mutex);
  const auto number = *static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->release_threshold = number;
      return CUDA_SUCCESS;
    // The marks can only be set back.
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (number != 0) return CUDA_ERROR_INVALID_VALUE;
      pool->reserved_high = pool->reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (number != 0) return CUDA_ERROR_INVALID_VALUE;
      pool->used_high = pool->used + pool->forgotten;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* access,
                                    size_t count) {
  KRUX_SIM_READY();
  const Pool* pool = Checked<Pool>(handle);
  if (pool == nullptr || (access == nullptr && count > 0)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const Device* device = FindDevice(access[i].location.id);
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || device == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ) return CUDA_ERROR_NOT_SUPPORTED;
    // A pool's own card can't be shut out.
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && device == pool->device) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle, CUmemLocation*) {
  KRUX_SIM_READY();
  if (Checked<Pool>(handle) == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}

// Sharing a pool between processes is not simulated; one that was not made for it is refused first.
CUresult CUDAAPI cuMemPoolExportToShareableHandle(void* out, CUmemoryPool handle,
                                                  CUmemAllocationHandleType,
                                                  unsigned long long flags) {
  KRUX_SIM_READY();
  const Pool* pool = Checked<Pool>(handle);
  if (out == nullptr || pool == nullptr || flags != 0 || !pool->is_shareable) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice ordinal) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = device->Attach(); r != CUDA_SUCCESS) return r;
  *out = reinterpret_cast<CUmemoryPool>(krux::sim::DefaultPool(device));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* out, CUdevice ordinal) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = device->Attach(); r != CUDA_SUCCESS) return r;
  *out = reinterpret_cast<CUmemoryPool>(krux::sim::CurrentPool(device));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  Pool* pool = Checked<Pool>(handle);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (pool == nullptr || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  krux::sim::SetCurrentPool(device, pool);
  return CUDA_SUCCESS;
}
