#include "sim/cuda/capture.h"

#include <algorithm>

#include "sim/cuda/thread_state.h"

namespace krux::sim {
namespace {

std::mutex g_mutex;  // guards g_captures, the captures in it and their graphs
std::vector<Capture*>& g_captures = *new std::vector<Capture*>;  // never destroyed
std::atomic<int> g_count{0};  // captures under way, so that calls need no lock while there is none
std::atomic<uint64_t> g_next_id{1};

Operation OperationOf(const Work& work) {
  Operation operation;
  operation.cost = work.cost;
  operation.width = work.width;
  operation.on_card = work.on_card;
  if (work.make_action) operation.action = work.make_action();
  return operation;
}

CUresult AppendNode(Stream* stream, Work work) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  Capture* capture = stream->capture.load();
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto* node = Make<GraphNode>();
  node->graph = capture->graph;
  node->work = std::move(work);
  std::vector<GraphNode*>& ends = capture->ends[stream];
  node->after = std::move(ends);
  ends = {node};
  capture->graph->nodes.push_back(node);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Enqueue(Stream* stream, Work work) {
  if (stream->capture.load() != nullptr) return AppendNode(stream, std::move(work));
  if (const CUresult r = CheckLegacyUse(stream); r != CUDA_SUCCESS) return r;
  return SubmitTo(stream, OperationOf(work));
}

CUresult BeginCapture(Stream* stream, CUstreamCaptureMode mode) {
  if (stream->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (stream->capture.load() != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto* capture = new Capture;
  capture->id = g_next_id.fetch_add(1);
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  capture->graph = Make<Graph>();
  capture->ends[stream] = {};
  g_captures.push_back(capture);
  g_count.fetch_add(1);
  stream->capture.store(capture);
  return CUDA_SUCCESS;
}

CUresult EndCapture(Stream* stream, Graph** graph) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  Capture* capture = stream->capture.load();
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  // Each end of another stream must be something that the origin came after.
  bool is_unjoined = false;
  for (const auto& [other, ends] : capture->ends) {
    other->capture.store(nullptr);
    if (other == stream) continue;
    for (GraphNode* end : ends) {
      is_unjoined |=
          std::find(capture->joined.begin(), capture->joined.end(), end) == capture->joined.end();
    }
  }
  g_captures.erase(std::find(g_captures.begin(), g_captures.end(), capture));
  g_count.fetch_sub(1);
  const bool is_invalid = capture->is_invalid;
  Graph* result = capture->graph;
  delete capture;
  if (is_invalid || is_unjoined) {
    DestroyGraph(result);
    *graph = nullptr;
    return is_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  *graph = result;
  return CUDA_SUCCESS;
}

CUresult RecordInCapture(Stream* stream, Event* event) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  Capture* capture = stream->capture.load();
  if (capture == nullptr || capture->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const std::lock_guard<std::mutex> event_lock(event->mutex);
  event->capture_id = capture->id;
  event->captured_after.assign(capture->ends[stream].begin(), capture->ends[stream].end());
  return CUDA_SUCCESS;
}

CUresult WaitForEvent(Stream* stream, Event* event) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const std::lock_guard<std::mutex> event_lock(event->mutex);
  Capture* capture = nullptr;
  for (Capture* candidate : g_captures) {
    if (candidate->id == event->capture_id) capture = candidate;
  }
  Capture* own = stream->capture.load();
  // An event of the world outside can't be waited for inside a capture, nor one of another capture.
  if (capture == nullptr || (own != nullptr && own != capture)) {
    if (own != nullptr) own->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  stream->capture.store(capture);
  std::vector<GraphNode*>& ends = capture->ends[stream];
  for (GraphNode* node : event->captured_after) {
    if (std::find(ends.begin(), ends.end(), node) == ends.end()) ends.push_back(node);
    if (own != nullptr) capture->joined.push_back(node);
  }
  return CUDA_SUCCESS;
}

CaptureState StateOfCapture(Stream* stream) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  CaptureState state;
  Capture* capture = stream->capture.load();
  if (capture == nullptr) return state;
  state.status =
      capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  state.id = capture->id;
  state.graph = capture->graph;
  state.after = capture->ends[stream];
  return state;
}

CUresult CheckNotCapturing(Stream* stream) {
  if (stream->capture.load() != nullptr) {
    const std::lock_guard<std::mutex> lock(g_mutex);
    if (Capture* capture = stream->capture.load()) capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CheckLegacyUse(stream);
}

CUresult CheckNoCapture(Context* context) {
  if (g_count.load() == 0) return CUDA_SUCCESS;
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (Capture* capture : g_captures) {
    if (capture->origin->context != context) continue;
    capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult CheckAllowedInCapture() {
  if (g_count.load() == 0) return CUDA_SUCCESS;
  const CUstreamCaptureMode mode = ThisThread().capture_mode;
  if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (Capture* capture : g_captures) {
    const bool is_own = capture->thread == std::this_thread::get_id();
    const bool is_forbidden =
        (is_own && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED) ||
        (mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (!is_forbidden) continue;
    capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult CheckLegacyUse(Stream* stream) {
  if (!stream->is_legacy || g_count.load() == 0) return CUDA_SUCCESS;
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (Capture* capture : g_captures) {
    if (capture->origin->context != stream->context || !capture->origin->is_blocking()) continue;
    capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return CUDA_SUCCESS;
}

// Nodes run one after another in the stream; neighbours without an action become one operation.
CUresult LaunchGraph(const std::vector<GraphNode*>& nodes, Stream* stream) {
  Operation sum;
  bool has_sum = false;
  auto flush = [&]() -> CUresult {
    if (!has_sum) return CUDA_SUCCESS;
    has_sum = false;
    return SubmitTo(stream, std::exchange(sum, Operation{}));
  };
  for (const GraphNode* node : nodes) {
    Operation operation = OperationOf(node->work);
    const bool can_merge = operation.action == nullptr && operation.on_card;
    if (can_merge && has_sum) {
      sum.cost += operation.cost;
      sum.width = std::max(sum.width, operation.width);
      continue;
    }
    if (const CUresult r = flush(); r != CUDA_SUCCESS) return r;
    if (can_merge) {
      sum = std::move(operation);
      has_sum = true;
    } else if (const CUresult r = SubmitTo(stream, std::move(operation)); r != CUDA_SUCCESS) {
      return r;
    }
  }
  return flush();
}

void DestroyGraph(Graph* graph) {
  for (GraphNode* node : graph->nodes) Bury(node);
  Bury(graph);
}

// Copies in an order in which each node comes after what it depends on; nodes of a cycle, which
// only a program's own dependencies can make, are left out, so that sizes tell.
Graph* CopyGraph(const Graph& graph) {
  auto* copy = Make<Graph>();
  std::map<const GraphNode*, GraphNode*> copies;
  for (bool has_progress = true; has_progress;) {
    has_progress = false;
    for (GraphNode* node : graph.nodes) {
      const bool is_ready =
          std::all_of(node->after.begin(), node->after.end(),
                      [&](GraphNode* before) { return copies.count(before) > 0; });
      if (!is_ready || copies.count(node) > 0) continue;
      auto* twin = Make<GraphNode>();
      twin->graph = copy;
      twin->original = node;
      twin->work = node->work;
      for (const GraphNode* before : node->after) twin->after.push_back(copies[before]);
      copies[node] = twin;
      copy->nodes.push_back(twin);
      has_progress = true;
    }
  }
  return copy;
}

}  // namespace krux::sim
