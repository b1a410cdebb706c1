// What an address is: cuPointerGetAttribute(s).
#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/vmm.h"

using krux::sim::Allocation;
using krux::sim::MemoryKind;

namespace {

template <typename T>
CUresult Answer(void* out, T value) {
  *static_cast<T*>(out) = value;
  return CUDA_SUCCESS;
}

constexpr int kEnd = CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE + 1;

// What the card maps at once: chunks, and for pools their steps.
size_t MappingBytes(const Allocation& a) {
  constexpr size_t kPoolStep = 32 << 20;
  if (a.kind != MemoryKind::kPool) return krux::sim::RoundToChunk(a.bytes);
  return (a.bytes + kPoolStep - 1) / kPoolStep * kPoolStep;
}

// Reserved addresses count when something is mapped there.
bool FindKnown(CUdeviceptr address, Allocation* allocation) {
  return krux::sim::FindAllocation(address, allocation) &&
         (allocation->kind != MemoryKind::kReserved || krux::sim::HasMapping(address));
}

CUresult PointerAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address,
                          const Allocation& a) {
  const bool is_host = a.kind == MemoryKind::kHost;
  const bool is_managed = a.kind == MemoryKind::kManaged;
  const bool is_plain = a.kind == MemoryKind::kLinear && !a.is_global;
  const bool has_access = a.kind != MemoryKind::kReserved || krux::sim::IsMapped(address, 1);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Answer(out, reinterpret_cast<CUcontext>(a.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Answer<unsigned>(out, is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      if (!has_access) return CUDA_ERROR_INVALID_VALUE;
      return Answer(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!is_host && !is_managed) return CUDA_ERROR_INVALID_VALUE;
      return Answer(out, reinterpret_cast<void*>(address));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Answer<unsigned>(out, is_managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Answer<int>(out, a.device->ordinal());
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Answer(out, a.address);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Answer<size_t>(out, a.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Answer<int>(out, 1);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Answer<int>(out, a.syncs || is_managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return Answer<int>(out, is_plain ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Answer<int>(out, CU_MEM_HANDLE_TYPE_NONE);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Answer<int>(out, has_access ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE : 0);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return Answer<size_t>(out, MappingBytes(a));
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return Answer(out, a.address / krux::sim::kChunkBytes * krux::sim::kChunkBytes);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return Answer<unsigned long long>(out, a.address / krux::sim::kChunkBytes);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return Answer<unsigned long long>(out, a.address);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Answer(out, reinterpret_cast<CUmemoryPool>(a.pool));
    default:
      return attribute <= 0 || attribute >= kEnd ? CUDA_ERROR_INVALID_VALUE
                                                 : CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

CUresult CUDAAPI cuPointerGetAttribute(void* out, CUpointer_attribute attribute,
                                       CUdeviceptr address) {
  KRUX_SIM_READY();
  Allocation allocation;
  if (out == nullptr || !FindKnown(address, &allocation)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return PointerAttribute(out, attribute, address, allocation);
}

// Unlike the single form, an unknown address is no error here: its attributes are zeros.
CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes,
                                        void** out, CUdeviceptr address) {
  KRUX_SIM_READY();
  if (count == 0 || attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Allocation allocation;
  const bool is_known = FindKnown(address, &allocation);
  for (unsigned i = 0; i < count; ++i) {
    if (is_known && PointerAttribute(out[i], attributes[i], address, allocation) == CUDA_SUCCESS)
      continue;
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_CONTEXT:
      case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *static_cast<void**>(out[i]) = nullptr;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(out[i]) = -2;
        break;
      default:
        *static_cast<unsigned*>(out[i]) = 0;
    }
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                       CUdeviceptr address) {
  KRUX_SIM_READY();
  Allocation allocation;
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
      !FindKnown(address, &allocation)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool syncs = *static_cast<const unsigned*>(value) != 0;
  const auto set = [syncs](Allocation& a) { a.syncs = syncs; };
  if (allocation.device != nullptr && allocation.device->memory().Contains(address)) {
    allocation.device->memory().Change(address, set);
  } else {
    krux::sim::TheHostMemory().Change(address, set);
  }
  return CUDA_SUCCESS;
}
