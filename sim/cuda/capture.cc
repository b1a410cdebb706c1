#include "sim/cuda/capture.h"

#include <algorithm>

#include "sim/cuda/graph.h"
#include "sim/cuda/thread_state.h"

namespace krux::sim {
namespace {

std::mutex g_mutex;  // guards g_captures, the captures in it and their graphs
std::vector<Capture*>& g_captures = *new std::vector<Capture*>;  // never destroyed
std::atomic<int> g_count{0};  // captures under way, so that calls need no lock while there is none
std::atomic<uint64_t> g_next_id{1};

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

CUresult Begin(Stream* stream, Graph* graph, std::vector<GraphNode*> after,
               CUstreamCaptureMode mode) {
  if (stream->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (stream->capture.load() != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto* capture = new Capture;
  capture->id = g_next_id.fetch_add(1);
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  capture->graph = graph != nullptr ? graph : Make<Graph>();
  capture->owns_graph = graph == nullptr;
  capture->ends[stream] = std::move(after);
  g_captures.push_back(capture);
  g_count.fetch_add(1);
  stream->capture.store(capture);
  return CUDA_SUCCESS;
}

}  // namespace

Operation OperationOf(const Work& work) {
  Operation operation;
  operation.cost = work.cost;
  operation.width = work.width;
  operation.on_card = work.on_card;
  if (work.make_action) operation.action = work.make_action();
  return operation;
}

CUresult Enqueue(Stream* stream, Work work) {
  if (stream->capture.load() != nullptr) return AppendNode(stream, std::move(work));
  if (const CUresult r = CheckLegacyUse(stream); r != CUDA_SUCCESS) return r;
  return SubmitTo(stream, OperationOf(work));
}

CUresult BeginCapture(Stream* stream, CUstreamCaptureMode mode) {
  return Begin(stream, nullptr, {}, mode);
}

CUresult BeginCaptureInto(Stream* stream, Graph* graph, std::vector<GraphNode*> after,
                          CUstreamCaptureMode mode) {
  return Begin(stream, graph, std::move(after), mode);
}

bool SetCaptureEnds(Stream* stream, const std::vector<GraphNode*>& after, bool adds) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  Capture* capture = stream->capture.load();
  if (capture == nullptr) return false;
  std::vector<GraphNode*>& ends = capture->ends[stream];
  if (!adds) ends.clear();
  ends.insert(ends.end(), after.begin(), after.end());
  return true;
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
  const bool owns_graph = capture->owns_graph;
  delete capture;
  if (is_invalid || is_unjoined) {
    if (owns_graph) DestroyGraph(result);
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

}  // namespace krux::sim
