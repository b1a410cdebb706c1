// What an address is: cuPointerGetAttribute(s).
#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/pool.h"

using krux::sim::Allocation;
using krux::sim::MemoryKind;

namespace {

template <typename T>
CUresult Answer(void* out, T value) {
  *static_cast<T*>(out) = value;
  return CUDA_SUCCESS;
}

CUresult PointerAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr address,
                          const Allocation& a) {
  const bool is_host = a.kind == MemoryKind::kHost;
  const bool is_managed = a.kind == MemoryKind::kManaged;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Answer(out, reinterpret_cast<CUcontext>(a.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Answer<unsigned>(out, is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
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
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Answer<int>(out, 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return Answer<unsigned long long>(out, a.address);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Answer(out, reinterpret_cast<CUmemoryPool>(a.pool));
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

CUresult CUDAAPI cuPointerGetAttribute(void* out, CUpointer_attribute attribute,
                                       CUdeviceptr address) {
  KRUX_SIM_READY();
  Allocation allocation;
  if (out == nullptr || !krux::sim::FindAllocation(address, &allocation)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return PointerAttribute(out, attribute, address, allocation);
}

// Unlike the single form, an unknown address is no error here: its attributes are zeros.
CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes,
                                        void** out, CUdeviceptr address) {
  KRUX_SIM_READY();
  if (attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Allocation allocation;
  const bool is_known = krux::sim::FindAllocation(address, &allocation);
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
      !krux::sim::FindAllocation(address, &allocation)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
