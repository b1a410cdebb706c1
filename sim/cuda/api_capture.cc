// Stream capture.
#include <algorithm>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/thread_state.h"

using krux::sim::CaptureState;
using krux::sim::FindStream;
using krux::sim::Graph;
using krux::sim::Stream;

namespace {

// Handles handed out by reference stay valid until the thread's next such call.
const CUgraphNode* KeepForCaller(const std::vector<krux::sim::GraphNode*>& nodes) {
  static thread_local std::vector<CUgraphNode> kept;
  kept.clear();
  for (krux::sim::GraphNode* node : nodes) kept.push_back(reinterpret_cast<CUgraphNode>(node));
  return kept.data();
}

bool NodesOf(const CUgraphNode* handles, size_t count, std::vector<krux::sim::GraphNode*>* out) {
  if (handles == nullptr && count > 0) return false;
  for (size_t i = 0; i < count; ++i) {
    out->push_back(krux::sim::Checked<krux::sim::GraphNode>(handles[i]));
    if (out->back() == nullptr) return false;
  }
  return true;
}

CUresult CaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                     const CUgraphNode** nodes, size_t* count) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (IsLegacyInUse(stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  const CaptureState state = StateOfCapture(stream);
  *status = state.status;
  if (state.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (id != nullptr) *id = state.id;
  if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(state.graph);
  if (nodes != nullptr) *nodes = KeepForCaller(state.after);
  if (count != nullptr) *count = state.after.size();
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return BeginCapture(stream, mode);
}
CUresult CUDAAPI cuStreamBeginCapture(CUstream stream) {
  return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* out) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Graph* graph = nullptr;
  const CUresult result = EndCapture(stream, &graph);
  if (out != nullptr) {
    *out = reinterpret_cast<CUgraph>(graph);
  } else if (graph != nullptr) {
    DestroyGraph(graph);
  }
  return result;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return CaptureInfo(handle, status, nullptr, nullptr, nullptr, nullptr);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status,
                                        cuuint64_t* id) {
  return CaptureInfo(handle, status, id, nullptr, nullptr, nullptr);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status,
                                           cuuint64_t* id, CUgraph* graph,
                                           const CUgraphNode** nodes, size_t* count) {
  return CaptureInfo(handle, status, id, graph, nodes, count);
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status,
                                           cuuint64_t* id, CUgraph* graph,
                                           const CUgraphNode** nodes, const CUgraphEdgeData** edges,
                                           size_t* count) {
  if (edges != nullptr) *edges = nullptr;
  return CaptureInfo(handle, status, id, graph, nodes, count);
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  KRUX_SIM_READY();
  // The real driver takes a mode that it does not know, too.
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, krux::sim::ThisThread().capture_mode);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle,
                                             const CUgraphNode* after, const CUgraphEdgeData*,
                                             size_t count, CUstreamCaptureMode mode) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  Graph* graph = krux::sim::Checked<Graph>(graph_handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<krux::sim::GraphNode*> nodes;
  if (graph == nullptr || !NodesOf(after, count, &nodes)) return CUDA_ERROR_INVALID_VALUE;
  return BeginCaptureInto(stream, graph, std::move(nodes), mode);
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* after,
                                                   size_t count, unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<krux::sim::GraphNode*> nodes;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || !NodesOf(after, count, &nodes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool adds = flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES;
  return SetCaptureEnds(stream, nodes, adds) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* after,
                                                      const CUgraphEdgeData*, size_t count,
                                                      unsigned int flags) {
  return cuStreamUpdateCaptureDependencies(stream, after, count, flags);
}
