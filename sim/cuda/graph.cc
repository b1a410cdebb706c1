#include "sim/cuda/graph.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/cuda/graph_memory.h"

namespace krux::sim {
namespace {

std::atomic<uint64_t> g_next_exec_id{1};

// A copy of one node without its edges; false: a graph inside of it has a cycle.
bool CopyNode(const GraphNode& node, GraphNode* twin) {
  twin->original = &node;
  twin->work = node.work;
  twin->is_enabled = node.is_enabled;
  twin->condition = node.condition;
  twin->condition_type = node.condition_type;
  if (node.child != nullptr && !SetChild(twin, *node.child)) return false;
  for (const Graph* body : node.bodies) {
    Graph* copy = CopyGraph(*body);
    if (copy == nullptr) return false;
    twin->bodies.push_back(copy);
    twin->body_handles.push_back(reinterpret_cast<CUgraph>(copy));
  }
  return true;
}

// Blocks that the nodes allocate and free, graphs inside included.
void CollectBlocks(const Graph& graph, std::vector<CUdeviceptr>* allocated,
                   std::vector<CUdeviceptr>* freed) {
  for (const GraphNode* node : graph.nodes) {
    const NodeParameters* parameters = node->work.parameters.get();
    if (node->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      allocated->push_back(parameters->allocation.dptr);
    } else if (node->work.type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      freed->push_back(parameters->freed);
    }
    if (node->child != nullptr) CollectBlocks(*node->child, allocated, freed);
    for (const Graph* body : node->bodies) CollectBlocks(*body, allocated, freed);
  }
}

// Gives a stream the nodes' work; neighbours without an action become one operation.
class Launcher {
 public:
  explicit Launcher(Stream* stream) : stream_(stream) {}

  CUresult Launch(const Graph& graph) {
    for (const GraphNode* node : graph.nodes) {
      if (!node->is_enabled) continue;
      const CUresult result = LaunchNode(*node);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  }

  CUresult Flush() {
    if (!has_sum_) return CUDA_SUCCESS;
    has_sum_ = false;
    return SubmitTo(stream_, std::exchange(sum_, Operation{}));
  }

 private:
  CUresult LaunchNode(const GraphNode& node) {
    switch (node.work.type) {
      case CU_GRAPH_NODE_TYPE_GRAPH:
        return Launch(*node.child);
      case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return LaunchConditional(node);
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return RecordEvent(node.work.parameters->event);
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return AwaitEvent(node.work.parameters->event);
      case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return LaunchParts(node.work);
      default:
        return LaunchWork(node.work);
    }
  }

  CUresult LaunchWork(const Work& work) {
    Operation operation = OperationOf(work);
    const bool can_merge = operation.action == nullptr && operation.on_card;
    if (can_merge && has_sum_) {
      sum_.cost += operation.cost;
      sum_.width = std::max(sum_.width, operation.width);
      return CUDA_SUCCESS;
    }
    if (const CUresult r = Flush(); r != CUDA_SUCCESS) return r;
    if (!can_merge) return SubmitTo(stream_, std::move(operation));
    sum_ = std::move(operation);
    has_sum_ = true;
    return CUDA_SUCCESS;
  }

  CUresult LaunchParts(const Work& work) {
    if (work.parts.empty()) return LaunchWork(work);
    for (const Work& part : work.parts) {
      if (const CUresult r = LaunchWork(part); r != CUDA_SUCCESS) return r;
    }
    return CUDA_SUCCESS;
  }

  CUresult LaunchConditional(const GraphNode& node) {
    const size_t value = node.condition->value;
    size_t body = value != 0 ? 0 : 1;
    if (node.condition_type == CU_GRAPH_COND_TYPE_SWITCH) body = value;
    return body < node.bodies.size() ? Launch(*node.bodies[body]) : CUDA_SUCCESS;
  }

  CUresult RecordEvent(CUevent handle) {
    if (const CUresult r = Flush(); r != CUDA_SUCCESS) return r;
    Event* event = Checked<Event>(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Operation operation;
    operation.mark = std::make_shared<Mark>(&stream_->context->device->engine());
    {
      const std::lock_guard<std::mutex> lock(event->mutex);
      event->mark = operation.mark;
      event->capture_id = 0;
    }
    return SubmitTo(stream_, std::move(operation));
  }

  CUresult AwaitEvent(CUevent handle) {
    if (const CUresult r = Flush(); r != CUDA_SUCCESS) return r;
    Event* event = Checked<Event>(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Operation operation;
    {
      const std::lock_guard<std::mutex> lock(event->mutex);
      if (event->mark == nullptr) return CUDA_SUCCESS;
      operation.after = std::make_unique<std::vector<MarkPtr>>(1, event->mark);
    }
    return SubmitTo(stream_, std::move(operation));
  }

  Stream* stream_;
  Operation sum_;
  bool has_sum_ = false;
};

// Nodes stand in the same order in both: each must be of the same kind and come after the same.
CUgraphExecUpdateResult Compare(const Graph& from, const Graph& to, const GraphNode** different) {
  if (from.nodes.size() != to.nodes.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  std::map<const GraphNode*, size_t> places_from;
  std::map<const GraphNode*, size_t> places_to;
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    places_from[from.nodes[i]] = i;
    places_to[to.nodes[i]] = i;
  }
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    const GraphNode& a = *from.nodes[i];
    const GraphNode& b = *to.nodes[i];
    *different = b.original;
    if (a.work.type != b.work.type) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (a.after.size() != b.after.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t k = 0; k < a.after.size(); ++k) {
      if (places_from[a.after[k]] != places_to[b.after[k]]) {
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
      }
    }
    if (a.child != nullptr) {
      const CUgraphExecUpdateResult inner = Compare(*a.child, *b.child, different);
      if (inner != CU_GRAPH_EXEC_UPDATE_SUCCESS) return inner;
    }
    if (a.work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
        a.work.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
  }
  *different = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

void TakeWork(Graph* to, const Graph& from) {
  for (size_t i = 0; i < to->nodes.size(); ++i) {
    to->nodes[i]->work = from.nodes[i]->work;
    if (to->nodes[i]->child != nullptr) TakeWork(to->nodes[i]->child, *from.nodes[i]->child);
  }
}

}  // namespace

void DropUserObject(UserObject* object, unsigned count) {
  if (object->references.fetch_sub(count) > count) return;
  if (object->destroy != nullptr) object->destroy(object->object);
  Bury(object);
}

bool SetChild(GraphNode* node, const Graph& child) {
  Graph* copy = CopyGraph(child);
  if (copy == nullptr) return false;
  if (node->child != nullptr) DestroyGraph(node->child);
  node->child = copy;
  node->work.type = CU_GRAPH_NODE_TYPE_GRAPH;
  return true;
}

void DestroyNode(GraphNode* node) {
  // Only the node that the program made owns its block, not the copies.
  if (node->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->original == nullptr) {
    ForgetGraphBlock(node->work.parameters->allocation.dptr);
  }
  if (node->child != nullptr) DestroyGraph(node->child);
  for (Graph* body : node->bodies) DestroyGraph(body);
  Bury(node);
}

void DestroyGraph(Graph* graph) {
  for (GraphNode* node : graph->nodes) DestroyNode(node);
  for (const auto& [object, count] : graph->user_objects) DropUserObject(object, count);
  for (Condition* condition : graph->conditions) Bury(condition);
  Bury(graph);
}

bool HasMemoryNodes(const Graph& graph) {
  std::vector<CUdeviceptr> allocated;
  std::vector<CUdeviceptr> freed;
  CollectBlocks(graph, &allocated, &freed);
  return !allocated.empty() || !freed.empty();
}

Graph* CopyGraph(const Graph& graph) {
  auto* copy = Make<Graph>();
  std::map<const GraphNode*, GraphNode*> copies;
  bool is_good = true;
  for (bool has_progress = true; has_progress && is_good;) {
    has_progress = false;
    for (GraphNode* node : graph.nodes) {
      const bool is_ready =
          std::all_of(node->after.begin(), node->after.end(),
                      [&](GraphNode* before) { return copies.count(before) > 0; });
      if (!is_ready || copies.count(node) > 0) continue;
      auto* twin = Make<GraphNode>();
      twin->graph = copy;
      is_good = is_good && CopyNode(*node, twin);
      for (const GraphNode* before : node->after) twin->after.push_back(copies[before]);
      copies[node] = twin;
      copy->nodes.push_back(twin);
      has_progress = true;
    }
  }
  if (is_good && copy->nodes.size() == graph.nodes.size()) {
    copy->user_objects = graph.user_objects;
    for (const auto& [object, count] : copy->user_objects) object->references.fetch_add(count);
    return copy;
  }
  DestroyGraph(copy);
  return nullptr;
}

CUresult InstantiateGraph(Graph* graph, unsigned long long flags, GraphExec** out) {
  constexpr unsigned long long kKnown =
      CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (graph->instances.use_count() > 1 && HasMemoryNodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  Graph* copy = CopyGraph(*graph);
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* exec = Make<GraphExec>();
  exec->graph = copy;
  exec->instance = graph->instances;
  exec->flags = flags;
  exec->id = g_next_exec_id.fetch_add(1);
  *out = exec;
  return CUDA_SUCCESS;
}

void DestroyExec(GraphExec* exec) {
  DestroyGraph(exec->graph);
  exec->instance.reset();
  Bury(exec);
}

CUresult LaunchGraph(GraphExec* exec, Stream* stream) {
  std::vector<CUdeviceptr> allocated;
  std::vector<CUdeviceptr> freed;
  CollectBlocks(*exec->graph, &allocated, &freed);
  if (!allocated.empty() || !freed.empty()) {
    const bool frees_first = (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
    const CUresult result = LaunchGraphBlocks(allocated, freed, frees_first);
    if (result != CUDA_SUCCESS) return result;
  }
  Launcher launcher(stream);
  const CUresult result = launcher.Launch(*exec->graph);
  return result == CUDA_SUCCESS ? launcher.Flush() : result;
}

CUresult UpdateExec(GraphExec* exec, const Graph& graph, CUgraphExecUpdateResultInfo* info) {
  *info = {};
  Graph* fresh = CopyGraph(graph);
  if (fresh == nullptr) {
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  const GraphNode* different = nullptr;
  info->result = Compare(*exec->graph, *fresh, &different);
  const bool is_good = info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS;
  if (is_good) TakeWork(exec->graph, *fresh);
  info->errorNode = reinterpret_cast<CUgraphNode>(const_cast<GraphNode*>(different));
  DestroyGraph(fresh);
  return is_good ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

GraphNode* FindTwin(const Graph& copy, const GraphNode* original) {
  for (GraphNode* node : copy.nodes) {
    if (node->original == original) return node;
    if (node->child == nullptr) continue;
    if (GraphNode* inner = FindTwin(*node->child, original)) return inner;
  }
  return nullptr;
}

GraphNode* NodeOfType(CUgraphNode handle, CUgraphNodeType type) {
  GraphNode* node = Checked<GraphNode>(handle);
  return node != nullptr && node->work.type == type ? node : nullptr;
}

GraphNode* TwinOf(CUgraphExec exec_handle, CUgraphNode handle, CUgraphNodeType type) {
  GraphExec* exec = Checked<GraphExec>(exec_handle);
  GraphNode* node = NodeOfType(handle, type);
  return exec == nullptr || node == nullptr ? nullptr : FindTwin(*exec->graph, node);
}

}  // namespace krux::sim
