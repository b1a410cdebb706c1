// Nodes of each kind: added, read, changed in a graph and in an executable one.
#include <algorithm>

#include "sim/cuda/copy.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/graph_memory.h"
#include "sim/cuda/graph_node.h"
#include "sim/cuda/launch.h"
#include "sim/cuda/mem_op.h"
#include "sim/cuda/memory.h"

using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::Function;
using krux::sim::Graph;
using krux::sim::GraphExec;
using krux::sim::GraphNode;
using krux::sim::NodeParameters;
using krux::sim::Work;

namespace {

// --- Work of each kind ---

// All generations of kernel parameters begin alike.
template <typename Parameters>
CUresult KernelWorkOf(const Parameters* p, CUfunction handle, Work* work) {
  KRUX_SIM_CONTEXT(context);
  Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const krux::sim::LaunchShape shape = {{p->gridDimX, p->gridDimY, p->gridDimZ},
                                        {p->blockDimX, p->blockDimY, p->blockDimZ},
                                        p->sharedMemBytes};
  const void* packed = krux::sim::PackedParameters(p->extra);
  if (!IsValidLaunch(shape, *function) ||
      (!function->parameters.empty() && p->kernelParams == nullptr && packed == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *work = KernelWork(context, handle, shape, p->kernelParams, packed);
  return CUDA_SUCCESS;
}
template <typename Parameters>
CUresult KernelWorkOf(const Parameters* p, Work* work) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUfunction function = p->func;
  if constexpr (requires { p->kern; }) {
    if (function == nullptr) function = reinterpret_cast<CUfunction>(p->kern);
  }
  return KernelWorkOf(p, function, work);
}

template <typename Parameters>
CUresult FillWorkOf(const Parameters* p, Work* work) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return krux::sim::FillWork(p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, work);
}

template <typename Parameters>
CUresult HostWorkOf(const Parameters* p, Work* work) {
  if (p == nullptr || p->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *work = krux::sim::HostFunctionWork(p->fn, p->userData);
  return CUDA_SUCCESS;
}

CUresult FreeWorkOf(CUdeviceptr address, Work* work) {
  krux::sim::Allocation block;
  if (!krux::sim::FindAllocation(address, &block) || block.address != address ||
      block.kind != krux::sim::MemoryKind::kGraph) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *work = krux::sim::FreeWork(address);
  return CUDA_SUCCESS;
}

template <typename Parameters>
CUresult BatchWorkOf(const Parameters* p, Work* work) {
  if (p == nullptr || p->flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return krux::sim::BatchWork(p->paramArray, p->count, work);
}

// --- Adding ---

CUresult MakeNode(CUgraph handle, const CUgraphNode* after, size_t count, GraphNode** out) {
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr || (after == nullptr && count > 0)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> before;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = Checked<GraphNode>(after[i]);
    if (node == nullptr || node->graph != graph ||
        std::find(before.begin(), before.end(), node) != before.end()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    before.push_back(node);
  }
  auto* node = krux::sim::Make<GraphNode>();
  node->graph = graph;
  node->after = std::move(before);
  *out = node;
  return CUDA_SUCCESS;
}

void AddTo(GraphNode* node, CUgraphNode* out) {
  node->graph->nodes.push_back(node);
  *out = reinterpret_cast<CUgraphNode>(node);
}

// `result` tells whether `work` could be made.
CUresult AddWork(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                 CUresult result, Work work) {
  KRUX_SIM_READY();
  if (result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = nullptr;
  if (const CUresult r = MakeNode(graph, after, count, &node); r != CUDA_SUCCESS) return r;
  node->work = std::move(work);
  AddTo(node, out);
  return CUDA_SUCCESS;
}

CUresult AddChild(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                  CUgraph child_handle) {
  KRUX_SIM_READY();
  Graph* child = Checked<Graph>(child_handle);
  if (out == nullptr || child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* node = nullptr;
  if (const CUresult r = MakeNode(graph, after, count, &node); r != CUDA_SUCCESS) return r;
  if (!SetChild(node, *child)) {
    DestroyNode(node);
    return CUDA_ERROR_INVALID_VALUE;
  }
  AddTo(node, out);
  return CUDA_SUCCESS;
}

bool IsSizeOf(CUgraphConditionalNodeType type, unsigned size) {
  switch (type) {
    case CU_GRAPH_COND_TYPE_IF:
      return size == 1 || size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return size > 0 && size <= 4096;
    default:
      return false;
  }
}

CUresult AddConditional(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                        CUDA_CONDITIONAL_NODE_PARAMS* p) {
  KRUX_SIM_READY();
  auto* condition = Checked<krux::sim::Condition>(p->handle);
  if (out == nullptr || condition == nullptr || !IsSizeOf(p->type, p->size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  GraphNode* node = nullptr;
  if (const CUresult r = MakeNode(graph, after, count, &node); r != CUDA_SUCCESS) return r;
  node->work.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  node->condition = condition;
  node->condition_type = p->type;
  for (unsigned i = 0; i < p->size; ++i) {
    node->bodies.push_back(krux::sim::Make<Graph>());
    node->body_handles.push_back(reinterpret_cast<CUgraph>(node->bodies.back()));
  }
  p->phGraph_out = node->body_handles.data();
  AddTo(node, out);
  return CUDA_SUCCESS;
}

// --- Changing ---

GraphNode* NodeOfType(CUgraphNode handle, CUgraphNodeType type) {
  GraphNode* node = Checked<GraphNode>(handle);
  return node != nullptr && node->work.type == type ? node : nullptr;
}

CUresult SetWork(CUgraphNode handle, CUresult result, Work work) {
  KRUX_SIM_READY();
  if (result != CUDA_SUCCESS) return result;
  GraphNode* node = NodeOfType(handle, work.type);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  node->work = std::move(work);
  return CUDA_SUCCESS;
}

GraphNode* TwinOf(CUgraphExec exec_handle, CUgraphNode handle, CUgraphNodeType type) {
  GraphExec* exec = Checked<GraphExec>(exec_handle);
  GraphNode* node = NodeOfType(handle, type);
  return exec == nullptr || node == nullptr ? nullptr : FindTwin(*exec->graph, node);
}

CUresult SetExecWork(CUgraphExec exec, CUgraphNode handle, CUresult result, Work work) {
  KRUX_SIM_READY();
  if (result != CUDA_SUCCESS) return result;
  GraphNode* twin = TwinOf(exec, handle, work.type);
  if (twin == nullptr) return CUDA_ERROR_INVALID_VALUE;
  twin->work = std::move(work);
  return CUDA_SUCCESS;
}

// The parameters of a node of this type; null: it is none.
const NodeParameters* ParametersOf(CUgraphNode handle, CUgraphNodeType type) {
  const GraphNode* node = NodeOfType(handle, type);
  return node == nullptr ? nullptr : node->work.parameters.get();
}

template <typename T>
CUresult Answer(const NodeParameters* parameters, T NodeParameters::* member, T* out) {
  KRUX_SIM_READY();
  if (parameters == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = parameters->*member;
  return CUDA_SUCCESS;
}

// --- Nodes of any kind in one structure ---

// Kinds whose work follows from the parameters alone.
CUresult WorkOf(const CUgraphNodeParams& p, Work* work) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return KernelWorkOf(&p.kernel, work);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return krux::sim::CopyWork3D(&p.memcpy.copyParams, work);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return FillWorkOf(&p.memset, work);
    case CU_GRAPH_NODE_TYPE_HOST:
      return HostWorkOf(&p.host, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return krux::sim::EventWork(p.type, p.eventWait.event, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return krux::sim::EventWork(p.type, p.eventRecord.event, work);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return FreeWorkOf(p.free.dptr, work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return BatchWorkOf(&p.memOp, work);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult AddAny(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                CUgraphNodeParams* p) {
  KRUX_SIM_READY();
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  CUDA_MEM_ALLOC_NODE_PARAMS allocation = {};
  CUresult result = CUDA_SUCCESS;
  switch (p->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return AddChild(out, graph, after, count, p->graph.graph);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return AddConditional(out, graph, after, count, &p->conditional);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      allocation.poolProps = p->alloc.poolProps;
      allocation.bytesize = p->alloc.bytesize;
      result = cuGraphAddMemAllocNode(out, graph, after, count, &allocation);
      p->alloc.dptr = allocation.dptr;
      return result;
    default:
      result = WorkOf(*p, &work);
      return AddWork(out, graph, after, count, result, std::move(work));
  }
}

}  // namespace

CUresult krux::sim::EventWork(CUgraphNodeType type, CUevent event, Work* work) {
  if (Checked<Event>(event) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto parameters = std::make_shared<NodeParameters>();
  parameters->event = event;
  work->type = type;
  work->parameters = std::move(parameters);
  return CUDA_SUCCESS;
}

CUresult krux::sim::AllocationWork(CUDA_MEM_ALLOC_NODE_PARAMS* p, Work* work) {
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

Work krux::sim::FreeWork(CUdeviceptr address) {
  auto parameters = std::make_shared<NodeParameters>();
  parameters->freed = address;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  work.parameters = std::move(parameters);
  return work;
}

#define KRUX_SIM_ADD(out, graph, after, count, made) \
  Work work;                                         \
  const CUresult result = made;                      \
  return AddWork(out, graph, after, count, result, std::move(work))

#define KRUX_SIM_SET(node, made) \
  Work work;                     \
  const CUresult result = made;  \
  return SetWork(node, result, std::move(work))

#define KRUX_SIM_SET_EXEC(exec, node, made) \
  Work work;                                \
  const CUresult result = made;             \
  return SetExecWork(exec, node, result, std::move(work))

CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                         size_t count, const CUDA_KERNEL_NODE_PARAMS* p) {
  KRUX_SIM_ADD(out, graph, after, count, KernelWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                      size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  KRUX_SIM_ADD(out, graph, after, count, KernelWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                      size_t count, const CUDA_MEMCPY3D* p, CUcontext) {
  KRUX_SIM_ADD(out, graph, after, count, krux::sim::CopyWork3D(p, &work));
}
CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                      size_t count, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  KRUX_SIM_ADD(out, graph, after, count, FillWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                    size_t count, const CUDA_HOST_NODE_PARAMS* p) {
  KRUX_SIM_ADD(out, graph, after, count, HostWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                     size_t count) {
  return AddWork(out, graph, after, count, CUDA_SUCCESS, Work{});
}
CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                          size_t count, CUgraph child) {
  return AddChild(out, graph, after, count, child);
}
CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph,
                                           const CUgraphNode* after, size_t count, CUevent event) {
  KRUX_SIM_ADD(out, graph, after, count,
               krux::sim::EventWork(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work));
}
CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                         size_t count, CUevent event) {
  KRUX_SIM_ADD(out, graph, after, count,
               krux::sim::EventWork(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work));
}
CUresult CUDAAPI cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                          size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  KRUX_SIM_ADD(out, graph, after, count, BatchWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                        size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* p) {
  KRUX_SIM_CONTEXT(context);
  GraphNode* node = nullptr;
  if (out == nullptr || p == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = MakeNode(graph, after, count, &node); r != CUDA_SUCCESS) return r;
  const CUresult result = krux::sim::AllocationWork(p, &node->work);
  if (result != CUDA_SUCCESS) {
    krux::sim::Bury(node);
    return result;
  }
  AddTo(node, out);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                       size_t count, CUdeviceptr address) {
  KRUX_SIM_ADD(out, graph, after, count, FreeWorkOf(address, &work));
}
CUresult CUDAAPI cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                size_t count, CUgraphNodeParams* p) {
  return AddAny(out, graph, after, count, p);
}
CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                   const CUgraphEdgeData*, size_t count, CUgraphNodeParams* p) {
  return AddAny(out, graph, after, count, p);
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  KRUX_SIM_SET(node, WorkOf(*p, &work));
}
CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                          CUgraphNodeParams* p) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  KRUX_SIM_SET_EXEC(exec, node, WorkOf(*p, &work));
}
CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* p) {
  KRUX_SIM_SET(node, KernelWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  KRUX_SIM_SET(node, KernelWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                   const CUDA_KERNEL_NODE_PARAMS* p) {
  KRUX_SIM_SET_EXEC(exec, node, KernelWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  KRUX_SIM_SET_EXEC(exec, node, KernelWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* p) {
  KRUX_SIM_SET(node, krux::sim::CopyWork3D(p, &work));
}
CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_MEMCPY3D* p, CUcontext) {
  KRUX_SIM_SET_EXEC(exec, node, krux::sim::CopyWork3D(p, &work));
}
CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* p) {
  KRUX_SIM_SET(node, FillWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  KRUX_SIM_SET_EXEC(exec, node, FillWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* p) {
  KRUX_SIM_SET(node, HostWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                              const CUDA_HOST_NODE_PARAMS* p) {
  KRUX_SIM_SET_EXEC(exec, node, HostWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  KRUX_SIM_SET(node, krux::sim::EventWork(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work));
}
CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                    CUevent event) {
  KRUX_SIM_SET_EXEC(exec, node,
                    krux::sim::EventWork(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work));
}
CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  KRUX_SIM_SET(node, krux::sim::EventWork(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work));
}
CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                  CUevent event) {
  KRUX_SIM_SET_EXEC(exec, node, krux::sim::EventWork(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work));
}
CUresult CUDAAPI cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  KRUX_SIM_SET(node, BatchWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                    const CUDA_BATCH_MEM_OP_NODE_PARAMS* p) {
  KRUX_SIM_SET_EXEC(exec, node, BatchWorkOf(p, &work));
}
CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode handle,
                                                    CUgraph child_handle) {
  KRUX_SIM_READY();
  GraphNode* twin = TwinOf(exec, handle, CU_GRAPH_NODE_TYPE_GRAPH);
  Graph* child = Checked<Graph>(child_handle);
  if (twin == nullptr || child == nullptr || child->nodes.size() != twin->child->nodes.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return SetChild(twin, *child) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* out) {
  KRUX_SIM_READY();
  GraphNode* node = NodeOfType(handle, CU_GRAPH_NODE_TYPE_KERNEL);
  if (node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Function* function = Checked<Function>(node->work.kernel.func);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  node->parameter_pointers.clear();
  for (const krux::sim::Parameter& parameter : function->parameters) {
    node->parameter_pointers.push_back(node->work.packed_parameters.data() + parameter.offset);
  }
  *out = node->work.kernel;
  out->kernelParams = node->parameter_pointers.data();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1* out) {
  CUDA_KERNEL_NODE_PARAMS full;
  const CUresult result = cuGraphKernelNodeGetParams_v2(handle, &full);
  if (result != CUDA_SUCCESS || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {full.func,      full.gridDimX,  full.gridDimY,       full.gridDimZ,     full.blockDimX,
          full.blockDimY, full.blockDimZ, full.sharedMemBytes, full.kernelParams, full.extra};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* out) {
  return Answer(ParametersOf(node, CU_GRAPH_NODE_TYPE_MEMCPY), &NodeParameters::copy, out);
}
CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out) {
  return Answer(ParametersOf(node, CU_GRAPH_NODE_TYPE_MEMSET), &NodeParameters::memset, out);
}
CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* out) {
  return Answer(ParametersOf(node, CU_GRAPH_NODE_TYPE_HOST), &NodeParameters::host, out);
}
CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  return Answer(ParametersOf(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD), &NodeParameters::event, out);
}
CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  return Answer(ParametersOf(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT), &NodeParameters::event, out);
}
CUresult CUDAAPI cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  return Answer(ParametersOf(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC), &NodeParameters::allocation, out);
}
CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* out) {
  return Answer(ParametersOf(node, CU_GRAPH_NODE_TYPE_MEM_FREE), &NodeParameters::freed, out);
}
CUresult CUDAAPI cuGraphBatchMemOpNodeGetParams(CUgraphNode handle,
                                                CUDA_BATCH_MEM_OP_NODE_PARAMS* out) {
  KRUX_SIM_READY();
  const NodeParameters* parameters = ParametersOf(handle, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  if (parameters == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  out->count = static_cast<unsigned>(parameters->operations.size());
  out->paramArray = const_cast<CUstreamBatchMemOpParams*>(parameters->operations.data());
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* out) {
  KRUX_SIM_READY();
  GraphNode* node = NodeOfType(handle, CU_GRAPH_NODE_TYPE_GRAPH);
  if (node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraph>(node->child);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  KRUX_SIM_READY();
  GraphNode* node = Checked<GraphNode>(handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->work.type;
  return CUDA_SUCCESS;
}

// Only work that changes nothing else can be left out.
CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec exec_handle, CUgraphNode handle,
                                       unsigned int is_enabled) {
  KRUX_SIM_READY();
  GraphNode* node = Checked<GraphNode>(handle);
  if (node == nullptr || (node->work.type != CU_GRAPH_NODE_TYPE_KERNEL &&
                          node->work.type != CU_GRAPH_NODE_TYPE_MEMSET &&
                          node->work.type != CU_GRAPH_NODE_TYPE_MEMCPY)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  GraphNode* twin = TwinOf(exec_handle, handle, node->work.type);
  if (twin == nullptr) return CUDA_ERROR_INVALID_VALUE;
  twin->is_enabled = is_enabled != 0;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec exec_handle, CUgraphNode handle,
                                       unsigned int* is_enabled) {
  KRUX_SIM_READY();
  GraphNode* node = Checked<GraphNode>(handle);
  GraphNode* twin = node == nullptr ? nullptr : TwinOf(exec_handle, handle, node->work.type);
  if (twin == nullptr || is_enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *is_enabled = twin->is_enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

// Attributes of kernel nodes (clusters, priorities, cooperation) change nothing here.
CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID,
                                               const CUkernelNodeAttrValue* value) {
  KRUX_SIM_READY();
  const bool is_kernel = NodeOfType(handle, CU_GRAPH_NODE_TYPE_KERNEL) != nullptr;
  return is_kernel && value != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID,
                                               CUkernelNodeAttrValue* value) {
  KRUX_SIM_READY();
  if (NodeOfType(handle, CU_GRAPH_NODE_TYPE_KERNEL) == nullptr || value == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *value = {};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  KRUX_SIM_READY();
  const bool are_kernels = NodeOfType(to, CU_GRAPH_NODE_TYPE_KERNEL) != nullptr &&
                           NodeOfType(from, CU_GRAPH_NODE_TYPE_KERNEL) != nullptr;
  return are_kernels ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
