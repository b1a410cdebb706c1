// Stream capture.
#include <algorithm>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
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

CUresult CaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                     const CUgraphNode** nodes, size_t* count) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = CheckLegacyUse(stream); r != CUDA_SUCCESS) return r;
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
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Graph* graph = nullptr;
  const CUresult result = EndCapture(stream, &graph);
  *out = reinterpret_cast<CUgraph>(graph);
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
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, krux::sim::ThisThread().capture_mode);
  return CUDA_SUCCESS;
}
