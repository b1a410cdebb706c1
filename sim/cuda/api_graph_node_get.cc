// Nodes of each kind, asked.
#include "sim/cuda/graph.h"
#include "sim/cuda/graph_node.h"
#include "sim/cuda/launch.h"

using krux::sim::Checked;
using krux::sim::Function;
using krux::sim::GraphNode;
using krux::sim::NodeOfType;
using krux::sim::NodeParameters;
using krux::sim::TwinOf;

namespace {

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

}  // namespace

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

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec exec_handle, CUgraphNode handle,
                                       unsigned int* is_enabled) {
  KRUX_SIM_READY();
  GraphNode* node = Checked<GraphNode>(handle);
  GraphNode* twin = node == nullptr ? nullptr : TwinOf(exec_handle, handle, node->work.type);
  if (twin == nullptr || is_enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *is_enabled = twin->is_enabled ? 1 : 0;
  return CUDA_SUCCESS;
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
