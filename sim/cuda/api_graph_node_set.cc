// Nodes of each kind, changed: in a graph and in an executable one.
#include "sim/cuda/copy.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/graph_node.h"

using krux::sim::Checked;
using krux::sim::Graph;
using krux::sim::GraphNode;
using krux::sim::NodeOfType;
using krux::sim::TwinOf;
using krux::sim::Work;

namespace {

CUresult SetWork(CUgraphNode handle, CUresult result, Work work) {
  KRUX_SIM_READY();
  if (result != CUDA_SUCCESS) return result;
  GraphNode* node = NodeOfType(handle, work.type);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  node->work = std::move(work);
  return CUDA_SUCCESS;
}

CUresult SetExecWork(CUgraphExec exec, CUgraphNode handle, CUresult result, Work work) {
  KRUX_SIM_READY();
  if (result != CUDA_SUCCESS) return result;
  GraphNode* twin = TwinOf(exec, handle, work.type);
  if (twin == nullptr) return CUDA_ERROR_INVALID_VALUE;
  twin->work = std::move(work);
  return CUDA_SUCCESS;
}

}  // namespace

#define KRUX_SIM_SET(node, made) \
  Work work;                     \
  const CUresult result = made;  \
  return SetWork(node, result, std::move(work))

#define KRUX_SIM_SET_EXEC(exec, node, made) \
  Work work;                                \
  const CUresult result = made;             \
  return SetExecWork(exec, node, result, std::move(work))

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
// Attributes of kernel nodes (clusters, priorities, cooperation) change nothing here.
CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID,
                                               const CUkernelNodeAttrValue* value) {
  KRUX_SIM_READY();
  const bool is_kernel = NodeOfType(handle, CU_GRAPH_NODE_TYPE_KERNEL) != nullptr;
  return is_kernel && value != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  KRUX_SIM_READY();
  const bool are_kernels = NodeOfType(to, CU_GRAPH_NODE_TYPE_KERNEL) != nullptr &&
                           NodeOfType(from, CU_GRAPH_NODE_TYPE_KERNEL) != nullptr;
  return are_kernels ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
