// Events.
#include <algorithm>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/graph_node.h"

using krux::sim::Checked;
using krux::sim::Event;
using krux::sim::FindStream;
using krux::sim::MarkPtr;
using krux::sim::Stream;

namespace {

MarkPtr MarkOf(Event* event) {
  const std::lock_guard<std::mutex> lock(event->mutex);
  return event->mark;
}

bool WasCaptured(Event* event) {
  const std::lock_guard<std::mutex> lock(event->mutex);
  return event->capture_id != 0;
}

CUresult Record(Event* event, Stream* stream) {
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture.load() != nullptr) return RecordInCapture(stream, event);
  if (const CUresult r = CheckLegacyUse(stream); r != CUDA_SUCCESS) return r;
  krux::sim::Operation operation;
  operation.mark = std::make_shared<krux::sim::Mark>(&stream->context->device->engine());
  {
    const std::lock_guard<std::mutex> lock(event->mutex);
    event->mark = operation.mark;
    event->capture_id = 0;
  }
  return SubmitTo(stream, std::move(operation));
}

// An event as a node of the graph that the stream captures.
CUresult EnqueueEvent(Stream* stream, CUgraphNodeType type, CUevent event) {
  krux::sim::Work work;
  const CUresult result = krux::sim::EventWork(type, event, &work);
  return result == CUDA_SUCCESS ? krux::sim::Enqueue(stream, std::move(work)) : result;
}

}  // namespace

CUresult CUDAAPI cuEventCreate(CUevent* out, unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  const bool is_shared = (flags & CU_EVENT_INTERPROCESS) != 0;
  if (out == nullptr || (flags & ~kKnown) != 0 ||
      (is_shared && (flags & CU_EVENT_DISABLE_TIMING) == 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* event = krux::sim::Make<Event>();
  event->context = context;
  event->flags = flags;
  *out = reinterpret_cast<CUevent>(event);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent handle) {
  KRUX_SIM_READY();
  Event* event = Checked<Event>(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult error = krux::sim::ErrorOf(event->context);
  krux::sim::Bury(event);
  return error;
}
CUresult CUDAAPI cuEventDestroy(CUevent handle) { return cuEventDestroy_v2(handle); }

CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream stream_handle) {
  KRUX_SIM_CONTEXT(context);
  Event* event = Checked<Event>(handle);
  Stream* stream = FindStream(stream_handle, context);
  if (event == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return Record(event, stream);
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  if ((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags == 0) return cuEventRecord(handle, stream);
  Event* event = Checked<Event>(handle);
  Stream* found = FindStream(stream, context);
  if (event == nullptr || found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // A record that others see is a node of its own: outside of a capture there is no such thing.
  if (found->capture.load() == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  return EnqueueEvent(found, CU_GRAPH_NODE_TYPE_EVENT_RECORD, handle);
}

CUresult CUDAAPI cuEventQuery(CUevent handle) {
  KRUX_SIM_READY();
  Event* event = Checked<Event>(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult r = krux::sim::CheckAllowedInCapture(); r != CUDA_SUCCESS) return r;
  if (WasCaptured(event)) return krux::sim::AskCapturedEvent(event);
  const MarkPtr mark = MarkOf(event);
  if (const CUresult error = krux::sim::ErrorOf(event->context); error != CUDA_SUCCESS) {
    return error;
  }
  if (mark == nullptr) return CUDA_SUCCESS;
  if (mark->engine->is_lost()) return CUDA_ERROR_UNKNOWN;
  return mark->engine->IsDone(*mark) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent handle) {
  KRUX_SIM_READY();
  Event* event = Checked<Event>(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (WasCaptured(event)) return krux::sim::AskCapturedEvent(event);
  const MarkPtr mark = MarkOf(event);
  if (mark == nullptr) return CUDA_SUCCESS;
  mark->engine->Wait(mark);
  return mark->engine->is_lost() ? CUDA_ERROR_UNKNOWN : event->context->error.load();
}

CUresult CUDAAPI cuEventElapsedTime_v2(float* milliseconds, CUevent from_handle,
                                       CUevent to_handle) {
  KRUX_SIM_READY();
  Event* from = Checked<Event>(from_handle);
  Event* to = Checked<Event>(to_handle);
  if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  const MarkPtr start = MarkOf(from);
  const MarkPtr end = MarkOf(to);
  if (start == nullptr || end == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->engine->IsDone(*start) || !end->engine->IsDone(*end)) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(static_cast<double>(end->time - start->time) / 1e6);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  return cuEventElapsedTime_v2(milliseconds, from, to);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  Event* event = Checked<Event>(handle);
  Stream* stream = FindStream(stream_handle, context);
  if (event == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool is_captured = stream->capture.load() != nullptr;
  if (is_captured && flags == CU_EVENT_WAIT_EXTERNAL) {
    return EnqueueEvent(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, handle);
  }
  if (WasCaptured(event) || is_captured) return WaitForEvent(stream, event);
  const MarkPtr mark = MarkOf(event);
  if (mark == nullptr || mark->is_done.load()) return CUDA_SUCCESS;
  krux::sim::Operation operation;
  operation.after = std::make_unique<std::vector<MarkPtr>>(1, mark);
  return SubmitTo(stream, std::move(operation));
}
