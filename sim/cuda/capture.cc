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

// Takes the capture off its streams and out of the list. REQUIRES: g_mutex held.
void Detach(Capture* capture) {
  for (const auto& [stream, ends] : capture->ends) stream->capture.store(nullptr);
  g_captures.erase(std::find(g_captures.begin(), g_captures.end(), capture));
  g_count.fetch_sub(1);
}

// Whether each end of another stream is something that the origin came after.
bool IsJoined(const Capture& capture) {
  for (const auto& [stream, ends] : capture.ends) {
    if (stream == capture.origin) continue;
    for (GraphNode* end : ends) {
      if (std::find(capture.joined.begin(), capture.joined.end(), end) == capture.joined.end()) {
        return false;
      }
    }
  }
  return true;
}

CUresult EndCapture(Stream* stream, Graph** graph) {
  *graph = nullptr;
  const std::lock_guard<std::mutex> lock(g_mutex);
  Capture* capture = stream->capture.load();
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) {
    capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  // Whatever comes out, the capture is over.
  Detach(capture);
  const std::unique_ptr<Capture> ended(capture);
  CUresult result = CUDA_SUCCESS;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  } else if (capture->is_invalid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!IsJoined(*capture)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  if (result == CUDA_SUCCESS) {
    *graph = capture->graph;
  } else if (capture->owns_graph) {
    DestroyGraph(capture->graph);
  }
  return result;
}

void AbandonCapture(Stream* stream) {
  if (stream->capture.load() == nullptr) return;
  const std::lock_guard<std::mutex> lock(g_mutex);
  Capture* capture = stream->capture.load();
  if (capture == nullptr) return;
  if (capture->origin != stream) {
    capture->is_invalid = true;
    capture->ends.erase(stream);
    return;
  }
  Detach(capture);
  if (capture->owns_graph) DestroyGraph(capture->graph);
  delete capture;
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
  // An event of the world outside can't be waited for inside a capture, and two captures can't
  // become one.
  if (capture != nullptr && own != nullptr && own != capture) {
    own->is_invalid = true;
    capture->is_invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (capture == nullptr) {
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

CUresult AskCapturedEvent(Event* event) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const std::lock_guard<std::mutex> event_lock(event->mutex);
  for (Capture* capture : g_captures) {
    if (capture->id != event->capture_id || capture->is_invalid) continue;
    capture->is_invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return CUDA_ERROR_INVALID_VALUE;
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

bool IsLegacyInUse(Stream* stream) {
  if (!stream->is_legacy || g_count.load() == 0) return false;
  const std::lock_guard<std::mutex> lock(g_mutex);
  return std::any_of(g_captures.begin(), g_captures.end(), [stream](const Capture* capture) {
    return capture->origin->context == stream->context && capture->origin->is_blocking();
  });
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
