// Graphs: nodes with work and what each comes after, and executable copies of them.
//
// An executable graph runs its nodes one after the other in one stream, in an order that respects
// all edges. Conditions can only be set by kernels, which do not run here: a body is run once, or
// not, by the handle's default value.
//
// Thread rule: as in the API, a graph is used by one thread at a time.
#ifndef KRUX_SIM_CUDA_GRAPH_H_
#define KRUX_SIM_CUDA_GRAPH_H_

#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"

namespace krux::sim {

struct Condition : Tagged {
  static constexpr uint32_t kTag = 0x434f4e44;
  Graph* graph = nullptr;  // that it was made for
  unsigned value = 0;
};

// The program's reference-counted object, destroyed when the last graph lets go of it.
struct UserObject : Tagged {
  static constexpr uint32_t kTag = 0x554f424a;
  void* object = nullptr;
  CUhostFn destroy = nullptr;
  std::atomic<unsigned> references{0};
};
void DropUserObject(UserObject* object, unsigned count);

struct GraphNode : Tagged {
  static constexpr uint32_t kTag = 0x474e4f44;
  Graph* graph = nullptr;
  Work work;
  std::vector<GraphNode*> after;
  const GraphNode* original = nullptr;    // in a copy: the node that this was made from
  std::vector<void*> parameter_pointers;  // handed out by cuGraphKernelNodeGetParams
  bool is_enabled = true;                 // in an executable graph
  Graph* child = nullptr;                 // owned; of a child graph node
  // Of a conditional node.
  CUgraphConditionalNodeType condition_type = CU_GRAPH_COND_TYPE_IF;
  Condition* condition = nullptr;
  std::vector<Graph*> bodies;  // owned
  std::vector<CUgraph> body_handles;
};

struct Graph : Tagged {
  static constexpr uint32_t kTag = 0x47524150;
  std::vector<GraphNode*> nodes;
  std::vector<std::pair<UserObject*, unsigned>> user_objects;
  std::vector<Condition*> conditions;
  // Held by each executable graph made of this one.
  std::shared_ptr<char> instances = std::make_shared<char>();
};

struct GraphExec : Tagged {
  static constexpr uint32_t kTag = 0x47455845;
  Graph* graph = nullptr;  // a sorted copy
  unsigned long long flags = 0;
  uint64_t id = 0;
  std::shared_ptr<char> instance;
};

// A copy whose nodes stand in an order in which each comes after what it depends on; null: there is
// a cycle, which only dependencies added by hand can make.
Graph* CopyGraph(const Graph& graph);
void DestroyGraph(Graph* graph);
// Graphs that allocate or free have one executable graph at a time, and can't be cloned.
bool HasMemoryNodes(const Graph& graph);
void DestroyNode(GraphNode* node);
CUresult InstantiateGraph(Graph* graph, unsigned long long flags, GraphExec** out);
void DestroyExec(GraphExec* exec);
CUresult LaunchGraph(GraphExec* exec, Stream* stream);
// Takes over the parameters of a graph of the same form.
CUresult UpdateExec(GraphExec* exec, const Graph& graph, CUgraphExecUpdateResultInfo* info);
// The twin of a graph's node in an executable graph or a copy, child graphs included; null: none.
GraphNode* FindTwin(const Graph& copy, const GraphNode* original);
// Null when the handle is none of a node of this type; TwinOf: or the executable graph has no such.
GraphNode* NodeOfType(CUgraphNode handle, CUgraphNodeType type);
GraphNode* TwinOf(CUgraphExec exec, CUgraphNode handle, CUgraphNodeType type);
// A copy of `child` becomes part of `node`; false: it has a cycle.
bool SetChild(GraphNode* node, const Graph& child);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_GRAPH_H_
