#include "sim/cuda/graph_node.h"

#include <algorithm>

#include "sim/cuda/copy.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/launch.h"
#include "sim/cuda/mem_op.h"
#include "sim/cuda/memory.h"

namespace krux::sim {
namespace {

// All generations of kernel parameters begin alike.
template <typename Parameters>
CUresult WorkOfKernel(const Parameters* p, CUfunction handle, Work* work) {
  KRUX_SIM_CONTEXT(context);
  Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const LaunchShape shape = {{p->gridDimX, p->gridDimY, p->gridDimZ},
                             {p->blockDimX, p->blockDimY, p->blockDimZ},
                             p->sharedMemBytes};
  const void* packed = PackedParameters(p->extra);
  if (!IsValidLaunch(shape, *function) ||
      (!function->parameters.empty() && p->kernelParams == nullptr && packed == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *work = KernelWork(context, handle, shape, p->kernelParams, packed);
  return CUDA_SUCCESS;
}
template <typename Parameters>
CUresult WorkOfKernel(const Parameters* p, Work* work) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUfunction function = p->func;
  if constexpr (requires { p->kern; }) {
    if (function == nullptr) function = reinterpret_cast<CUfunction>(p->kern);
  }
  return WorkOfKernel(p, function, work);
}

template <typename Parameters>
CUresult WorkOfFill(const Parameters* p, Work* work) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FillWork(p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, work);
}

template <typename Parameters>
CUresult WorkOfHost(const Parameters* p, Work* work) {
  if (p == nullptr || p->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *work = HostFunctionWork(p->fn, p->userData);
  return CUDA_SUCCESS;
}

template <typename Parameters>
CUresult WorkOfBatch(const Parameters* p, Work* work) {
  if (p == nullptr || p->flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return BatchWork(p->paramArray, p->count, work);
}

}  // namespace

CUresult KernelWorkOf(const CUDA_KERNEL_NODE_PARAMS* p, Work* work) {
  return WorkOfKernel(p, work);
}
CUresult KernelWorkOf(const CUDA_KERNEL_NODE_PARAMS_v1* p, Work* work) {
  return WorkOfKernel(p, work);
}
CUresult FillWorkOf(const CUDA_MEMSET_NODE_PARAMS* p, Work* work) { return WorkOfFill(p, work); }
CUresult HostWorkOf(const CUDA_HOST_NODE_PARAMS* p, Work* work) { return WorkOfHost(p, work); }
CUresult BatchWorkOf(const CUDA_BATCH_MEM_OP_NODE_PARAMS* p, Work* work) {
  return WorkOfBatch(p, work);
}

CUresult FreeWorkOf(CUdeviceptr address, Work* work) {
  Allocation block;
  if (!FindAllocation(address, &block) || block.address != address ||
      block.kind != MemoryKind::kGraph) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *work = FreeWork(address);
  return CUDA_SUCCESS;
}

bool HasReservedWords(const CUgraphNodeParams& p) {
  return p.reserved2 != 0 || std::any_of(std::begin(p.reserved0), std::end(p.reserved0),
                                         [](int word) { return word != 0; });
}

CUresult WorkOf(const CUgraphNodeParams& p, Work* work) {
  if (HasReservedWords(p)) return CUDA_ERROR_INVALID_VALUE;
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return WorkOfKernel(&p.kernel, work);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return CopyWork3D(&p.memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return WorkOfFill(&p.memset, work);
    case CU_GRAPH_NODE_TYPE_HOST:
      return WorkOfHost(&p.host, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return EventWork(p.type, p.eventWait.event, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return EventWork(p.type, p.eventRecord.event, work);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return FreeWorkOf(p.free.dptr, work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return WorkOfBatch(&p.memOp, work);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult EventWork(CUgraphNodeType type, CUevent event, Work* work) {
  if (Checked<Event>(event) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto parameters = std::make_shared<NodeParameters>();
  parameters->event = event;
  work->type = type;
  work->parameters = std::move(parameters);
  return CUDA_SUCCESS;
}

CUresult AllocationWork(CUDA_MEM_ALLOC_NODE_PARAMS* p, Work* work) {
  const CUmemPoolProps& pool = p->poolProps;
  if (p->bytesize == 0 || pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      pool.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Device* device = FindDevice(pool.location.id);
  if (device == nullptr || !device->is_attached()) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = ReserveGraphBlock(device, p->bytesize, &p->dptr);
  if (result != CUDA_SUCCESS) return result;
  auto parameters = std::make_shared<NodeParameters>();
  parameters->allocation = *p;
  parameters->allocation.accessDescs = nullptr;
  parameters->allocation.accessDescCount = 0;
  work->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  work->parameters = std::move(parameters);
  return CUDA_SUCCESS;
}

Work FreeWork(CUdeviceptr address) {
  auto parameters = std::make_shared<NodeParameters>();
  parameters->freed = address;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  work.parameters = std::move(parameters);
  return work;
}

}  // namespace krux::sim
