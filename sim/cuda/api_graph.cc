// Graphs as wholes: creation, copies, instantiation, update, launch, the program's objects in them,
// memory of graphs. Nodes are in api_graph_node.cc, edges in api_graph_edge.cc.
#include "sim/cuda/graph.h"

#include <cstdio>

#include "sim/cuda/graph_memory.h"

using krux::sim::Checked;
using krux::sim::Device;
using krux::sim::FindDevice;
using krux::sim::Graph;
using krux::sim::GraphExec;
using krux::sim::GraphNode;
using krux::sim::UserObject;

namespace {

CUresult Instantiate(CUgraphExec* out, CUgraph handle, unsigned long long flags) {
  KRUX_SIM_CONTEXT(context);
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr || out == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphExec* exec = nullptr;
  const CUresult result = InstantiateGraph(graph, flags, &exec);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUgraphExec>(exec);
  return result;
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
  if (HasMemoryNodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  Graph* copy = CopyGraph(*graph);
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraph>(copy);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(clone);
  GraphNode* node = Checked<GraphNode>(original);
  if (graph == nullptr || node == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* twin = FindTwin(*graph, node);
  if (twin == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraphNode>(twin);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph,
                                             unsigned long long flags) {
  return Instantiate(out, graph, flags);
}
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return Instantiate(out, graph, 0);
}
CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*,
                                       size_t) {
  return Instantiate(out, graph, 0);
}
CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = Instantiate(out, graph, parameters->flags);
  parameters->result_out =
      result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  KRUX_SIM_READY();
  GraphExec* exec = Checked<GraphExec>(handle);
  if (exec == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle) {
  KRUX_SIM_READY();
  GraphExec* exec = Checked<GraphExec>(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DestroyExec(exec);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec exec_handle, CUgraph graph_handle,
                                      CUgraphExecUpdateResultInfo* info) {
  KRUX_SIM_READY();
  GraphExec* exec = Checked<GraphExec>(exec_handle);
  Graph* graph = Checked<Graph>(graph_handle);
  if (exec == nullptr || graph == nullptr || info == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return UpdateExec(exec, *graph, info);
}
CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                                   CUgraphExecUpdateResult* out) {
  CUgraphExecUpdateResultInfo info = {};
  const CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
  if (error_node != nullptr) *error_node = info.errorNode;
  if (out != nullptr) *out = info.result;
  return result;
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
  if (const CUresult r = CheckNotCapturing(stream); r != CUDA_SUCCESS) return r;
  return LaunchGraph(exec, stream);
}

CUresult CUDAAPI cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph handle,
                                                CUcontext, unsigned int default_value,
                                                unsigned int flags) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr || out == nullptr ||
      (flags & ~unsigned{CU_GRAPH_COND_ASSIGN_DEFAULT}) != 0 ||
      (flags == 0 && default_value != 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* condition = krux::sim::Make<krux::sim::Condition>();
  condition->graph = graph;
  condition->value = default_value;
  graph->conditions.push_back(condition);
  *out = reinterpret_cast<CUgraphConditionalHandle>(condition);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectCreate(CUuserObject* out, void* object, CUhostFn destroy,
                                    unsigned int references, unsigned int flags) {
  KRUX_SIM_READY();
  if (out == nullptr || destroy == nullptr || references == 0 || references > 0x7fffffff ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* made = krux::sim::Make<UserObject>();
  made->object = object;
  made->destroy = destroy;
  made->references.store(references);
  *out = reinterpret_cast<CUuserObject>(made);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  KRUX_SIM_READY();
  UserObject* object = Checked<UserObject>(handle);
  if (object == nullptr || count == 0 || count > 0x7fffffff) return CUDA_ERROR_INVALID_VALUE;
  object->references.fetch_add(count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  KRUX_SIM_READY();
  UserObject* object = Checked<UserObject>(handle);
  if (object == nullptr || count == 0 || count > object->references.load()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  krux::sim::DropUserObject(object, count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle,
                                         unsigned int count, unsigned int flags) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(graph_handle);
  UserObject* object = Checked<UserObject>(handle);
  if (graph == nullptr || object == nullptr || count == 0 ||
      (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) object->references.fetch_add(count);
  graph->user_objects.emplace_back(object, count);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle,
                                          unsigned int count) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(graph_handle);
  UserObject* object = Checked<UserObject>(handle);
  if (graph == nullptr || object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (auto& [held, held_count] : graph->user_objects) {
    if (held != object || held_count < count) continue;
    held_count -= count;
    krux::sim::DropUserObject(object, count);
    std::erase_if(graph->user_objects, [](const auto& row) { return row.second == 0; });
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                              void* value) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const krux::sim::GraphMemoryUse use = krux::sim::GraphMemoryOf(device);
  auto* number = static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *number = use.reserved;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *number = use.used_high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *number = use.reserved;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *number = use.reserved_high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                              void* value) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const bool is_used = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH;
  if (value == nullptr || *static_cast<cuuint64_t*>(value) != 0 ||
      (!is_used && attribute != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  krux::sim::ResetGraphMemoryHigh(device, is_used);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice ordinal) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  krux::sim::TrimGraphMemory(device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned int) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::FILE* file = std::fopen(path, "we");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  std::fputs("digraph dot {\n", file);
  for (const GraphNode* node : graph->nodes) {
    std::fprintf(file, "\"%p\" [label=\"type %d\"];\n", static_cast<const void*>(node),
                 static_cast<int>(node->work.type));
    for (const GraphNode* before : node->after) {
      std::fprintf(file, "\"%p\" -> \"%p\";\n", static_cast<const void*>(before),
                   static_cast<const void*>(node));
    }
  }
  std::fputs("}\n", file);
  return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
