// Nodes of each kind, added to a graph. What they are asked and changed is in api_graph_node_get.cc
// and api_graph_node_set.cc.
#include <algorithm>

#include "sim/cuda/copy.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/graph_node.h"

using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::Graph;
using krux::sim::GraphNode;
using krux::sim::Work;

namespace {

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
  if (Checked<Context>(p->ctx) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
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

CUresult AddAny(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                CUgraphNodeParams* p) {
  KRUX_SIM_READY();
  if (p == nullptr || krux::sim::HasReservedWords(*p)) return CUDA_ERROR_INVALID_VALUE;
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

#define KRUX_SIM_ADD(out, graph, after, count, made) \
  Work work;                                         \
  const CUresult result = made;                      \
  return AddWork(out, graph, after, count, result, std::move(work))

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
