// Graphs: built by hand or captured, instantiated, launched. Child graphs, memory and conditional
// nodes are refused (NOT_SUPPORTED).
#include <algorithm>

#include "sim/cuda/capture.h"
#include "sim/cuda/copy.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/launch.h"

using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::Function;
using krux::sim::Graph;
using krux::sim::GraphExec;
using krux::sim::GraphNode;
using krux::sim::Work;

namespace {

CUresult AddNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* after, size_t count,
                 Work work) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr || out == nullptr || (after == nullptr && count > 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<GraphNode*> before;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = Checked<GraphNode>(after[i]);
    if (node == nullptr || node->graph != graph) return CUDA_ERROR_INVALID_VALUE;
    before.push_back(node);
  }
  auto* node = krux::sim::Make<GraphNode>();
  node->graph = graph;
  node->work = std::move(work);
  node->after = std::move(before);
  graph->nodes.push_back(node);
  *out = reinterpret_cast<CUgraphNode>(node);
  return CUDA_SUCCESS;
}

// CUDA_KERNEL_NODE_PARAMS and its first generation begin alike.
template <typename Parameters>
CUresult WorkOf(const Parameters* p, Work* work) {
  KRUX_SIM_CONTEXT(context);
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Function* function = Checked<Function>(p->func);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const krux::sim::LaunchShape shape = {{p->gridDimX, p->gridDimY, p->gridDimZ},
                                        {p->blockDimX, p->blockDimY, p->blockDimZ},
                                        p->sharedMemBytes};
  const void* packed = krux::sim::PackedParameters(p->extra);
  if (!IsValidLaunch(shape, *function) ||
      (!function->parameters.empty() && p->kernelParams == nullptr && packed == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *work = KernelWork(context, p->func, shape, p->kernelParams, packed);
  return CUDA_SUCCESS;
}

template <typename Parameters>
CUresult AddKernel(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                   const Parameters* parameters) {
  Work work;
  const CUresult result = WorkOf(parameters, &work);
  return result == CUDA_SUCCESS ? AddNode(out, graph, after, count, std::move(work)) : result;
}

GraphNode* KernelNode(CUgraphNode handle) {
  GraphNode* node = Checked<GraphNode>(handle);
  return node != nullptr && node->work.type == CU_GRAPH_NODE_TYPE_KERNEL ? node : nullptr;
}

CUresult Instantiate(CUgraphExec* out, CUgraph handle) {
  KRUX_SIM_CONTEXT(context);
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr || out == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Graph* copy = CopyGraph(*graph);
  if (copy->nodes.size() != graph->nodes.size()) {  // a cycle
    DestroyGraph(copy);
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* exec = krux::sim::Make<GraphExec>();
  exec->graph = copy;
  *out = reinterpret_cast<CUgraphExec>(exec);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CUDAAPI cuGraphCreate(CUgraph* out, unsigned int flags) {
  KRUX_SIM_READY();
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraph>(krux::sim::Make<Graph>());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph handle) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DestroyGraph(graph);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphClone(CUgraph* out, CUgraph handle) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraph>(CopyGraph(*graph));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                         size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return AddKernel(out, graph, after, count, parameters);
}
CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                      size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return AddKernel(out, graph, after, count, parameters);
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                     size_t count) {
  return AddNode(out, graph, after, count, Work{});
}

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                    size_t count, const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr || parameters->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddNode(out, graph, after, count,
                 krux::sim::HostFunctionWork(parameters->fn, parameters->userData));
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after,
                                      size_t count, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext) {
  KRUX_SIM_CONTEXT(context);
  if (p == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  const CUresult result =
      krux::sim::FillWork(p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, &work);
  return result == CUDA_SUCCESS ? AddNode(out, graph, after, count, std::move(work)) : result;
}

CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* out) {
  KRUX_SIM_READY();
  GraphNode* node = KernelNode(handle);
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

CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(CUgraphNode handle,
                                               const CUDA_KERNEL_NODE_PARAMS* parameters) {
  KRUX_SIM_READY();
  GraphNode* node = KernelNode(handle);
  return node == nullptr ? CUDA_ERROR_INVALID_VALUE : WorkOf(parameters, &node->work);
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec handle, CUgraphNode node_handle,
                                                   const CUDA_KERNEL_NODE_PARAMS* parameters) {
  KRUX_SIM_READY();
  GraphExec* exec = Checked<GraphExec>(handle);
  GraphNode* original = KernelNode(node_handle);
  if (exec == nullptr || original == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (GraphNode* node : exec->graph->nodes) {
    if (node->original == original) return WorkOf(parameters, &node->work);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) {
      nodes[i] = i < graph->nodes.size() ? reinterpret_cast<CUgraphNode>(graph->nodes[i]) : nullptr;
    }
    *count = std::min(*count, graph->nodes.size());
  } else {
    *count = graph->nodes.size();
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  KRUX_SIM_READY();
  GraphNode* node = Checked<GraphNode>(handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->work.type;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  return Instantiate(out, graph);
}
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return Instantiate(out, graph);
}
CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*,
                                       size_t) {
  return Instantiate(out, graph);
}
CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = Instantiate(out, graph);
  parameters->result_out =
      result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle) {
  KRUX_SIM_READY();
  GraphExec* exec = Checked<GraphExec>(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DestroyGraph(exec->graph);
  krux::sim::Bury(exec);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec handle, CUstream stream) {
  KRUX_SIM_CONTEXT(context);
  if (Checked<GraphExec>(handle) == nullptr || FindStream(stream, context) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  KRUX_SIM_CONTEXT(context);
  GraphExec* exec = Checked<GraphExec>(handle);
  krux::sim::Stream* stream = FindStream(stream_handle, context);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // Child graphs are not simulated, so a graph can't be captured into another.
  if (stream->capture.load() != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult r = CheckLegacyUse(stream); r != CUDA_SUCCESS) return r;
  return LaunchGraph(exec->graph->nodes, stream);
}
