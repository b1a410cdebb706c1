// What comes after what in a graph.
#include <algorithm>

#include "sim/cuda/graph.h"

using krux::sim::Checked;
using krux::sim::Graph;
using krux::sim::GraphNode;

namespace {

CUgraphNode Handle(GraphNode* node) { return reinterpret_cast<CUgraphNode>(node); }

// The API's way to hand out lists: with no place for them, how many there are; else as many as fit,
// and zeros behind them.
CUresult HandOut(const std::vector<GraphNode*>& found, CUgraphNode* out, CUgraphEdgeData* edges,
                 size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    *count = found.size();
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i) {
    out[i] = i < found.size() ? Handle(found[i]) : nullptr;
    if (edges != nullptr) edges[i] = {};
  }
  *count = std::min(*count, found.size());
  return CUDA_SUCCESS;
}

std::vector<GraphNode*> DependentsOf(const GraphNode* node) {
  std::vector<GraphNode*> found;
  for (GraphNode* other : node->graph->nodes) {
    if (std::find(other->after.begin(), other->after.end(), node) != other->after.end()) {
      found.push_back(other);
    }
  }
  return found;
}

CUresult Edges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges,
               size_t* count) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr || count == nullptr || (from == nullptr) != (to == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<GraphNode*> starts;
  std::vector<GraphNode*> ends;
  for (GraphNode* node : graph->nodes) {
    for (GraphNode* before : node->after) {
      starts.push_back(before);
      ends.push_back(node);
    }
  }
  size_t copy = *count;
  HandOut(starts, from, edges, &copy);
  return HandOut(ends, to, nullptr, count);
}

// Both ends of edge `i`, when they are nodes of the graph.
bool EndsOf(Graph* graph, const CUgraphNode* from, const CUgraphNode* to, size_t i,
            GraphNode** start, GraphNode** end) {
  *start = Checked<GraphNode>(from[i]);
  *end = Checked<GraphNode>(to[i]);
  return *start != nullptr && *end != nullptr && *start != *end && (*start)->graph == graph &&
         (*end)->graph == graph;
}

CUresult ChangeEdges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count,
                     bool adds) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr || (count > 0 && (from == nullptr || to == nullptr))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    GraphNode* start = nullptr;
    GraphNode* end = nullptr;
    if (!EndsOf(graph, from, to, i, &start, &end)) return CUDA_ERROR_INVALID_VALUE;
    const auto found = std::find(end->after.begin(), end->after.end(), start);
    if (adds == (found != end->after.end())) return CUDA_ERROR_INVALID_VALUE;
    if (adds) {
      end->after.push_back(start);
    } else {
      end->after.erase(found);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CUDAAPI cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return HandOut(graph->nodes, nodes, nullptr, count);
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  KRUX_SIM_READY();
  Graph* graph = Checked<Graph>(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> roots;
  std::copy_if(graph->nodes.begin(), graph->nodes.end(), std::back_inserter(roots),
               [](const GraphNode* node) { return node->after.empty(); });
  return HandOut(roots, nodes, nullptr, count);
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return Edges(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                    CUgraphEdgeData* edges, size_t* count) {
  return Edges(graph, from, to, edges, count);
}

CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode handle, CUgraphNode* out,
                                               CUgraphEdgeData* edges, size_t* count) {
  KRUX_SIM_READY();
  GraphNode* node = Checked<GraphNode>(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return HandOut(node->after, out, edges, count);
}
CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return cuGraphNodeGetDependencies_v2(node, out, nullptr, count);
}

CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode handle, CUgraphNode* out,
                                                 CUgraphEdgeData* edges, size_t* count) {
  KRUX_SIM_READY();
  GraphNode* node = Checked<GraphNode>(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return HandOut(DependentsOf(node), out, edges, count);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return cuGraphNodeGetDependentNodes_v2(node, out, nullptr, count);
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from,
                                        const CUgraphNode* to, size_t count) {
  return ChangeEdges(graph, from, to, count, true);
}
CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                           const CUgraphNode* to, const CUgraphEdgeData*,
                                           size_t count) {
  return ChangeEdges(graph, from, to, count, true);
}
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from,
                                           const CUgraphNode* to, size_t count) {
  return ChangeEdges(graph, from, to, count, false);
}
CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                              const CUgraphNode* to, const CUgraphEdgeData*,
                                              size_t count) {
  return ChangeEdges(graph, from, to, count, false);
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode handle) {
  KRUX_SIM_READY();
  GraphNode* node = Checked<GraphNode>(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Nodes of memory can't be taken out of a graph.
  if (node->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
      node->work.type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  for (GraphNode* other : node->graph->nodes) std::erase(other->after, node);
  std::erase(node->graph->nodes, node);
  DestroyNode(node);
  return CUDA_SUCCESS;
}
