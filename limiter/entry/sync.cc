// Streams, captures and waits. A wait is never gated. When it returns, what was in the stream is
// done for certain, which is a marker for free.
#include "limiter/entry/entry.h"

namespace {

using namespace krux::limiter;

// Pools give memory back at such points, if something was freed since the last look.
void SettlePools() {
  if (Self().pools.shrinking()) Self().pools.SettleAll();
}

// Long unmarked work gets a marker before the wait, so that the keeper can see its end.
template <typename Call>
CUresult SynchronizeStream(CUstream stream, DefaultStream default_stream, Call call) {
  Process& self = Self();
  if (self.captures.load(std::memory_order_relaxed) != 0) return call();
  Stream* tracked = self.streams.FindExisting(Streams::Resolve(stream, default_stream));
  if (tracked == nullptr) return call();
  uint64_t issued = 0;
  {
    const LockGuard guard(tracked->track.lock());
    if (tracked->track.UnmarkedCost() > self.pace.tail_slack)
      self.streams.PutMarkerLocked(*tracked);
    issued = tracked->track.BeginSynchronize();
  }
  const bool certain = !self.words.LaunchingOn(tracked);
  const CUresult result = call();
  {
    const LockGuard guard(tracked->track.lock());
    tracked->track.EndSynchronize(issued, TicksNow(), certain);
  }
  if (result == CUDA_SUCCESS) SettlePools();
  return result;
}

// All streams of a context. A stream beyond the list is left to its markers.
template <typename Call>
CUresult SynchronizeContext(CUcontext context, Call call) {
  constexpr size_t kMost = 128;
  Process& self = Self();
  if (self.captures.load(std::memory_order_relaxed) != 0) return call();
  Stream* waited_for[kMost];
  uint64_t issued[kMost];
  bool certain[kMost];
  size_t count = 0;
  self.streams.PutMarkersOfContext(context);
  self.streams.ForEach([&](Stream& stream) {
    if (count == kMost || stream.context.load(std::memory_order_relaxed) != context) return;
    if (stream.track.outstanding_launches() == 0) return;
    const LockGuard guard(stream.track.lock());
    issued[count] = stream.track.BeginSynchronize();
    waited_for[count++] = &stream;
  });
  for (size_t i = 0; i < count; ++i) certain[i] = !self.words.LaunchingOn(waited_for[i]);
  const CUresult result = call();
  for (size_t i = 0; i < count; ++i) {
    const LockGuard guard(waited_for[i]->track.lock());
    waited_for[i]->track.EndSynchronize(issued[i], TicksNow(), certain[i]);
  }
  if (result == CUDA_SUCCESS) SettlePools();
  return result;
}

// The channel of a stream takes memory of the card.
template <typename Call>
CUresult CreateStream(Call call) {
  const EntryGuard guard;
  const uint32_t gpu = guard.active() ? Self().devices.CurrentGpu() : Devices::kNotGranted;
  if (gpu == Devices::kNotGranted) return call();
  if (!Self().contexts.AddStream(gpu)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) Self().contexts.RemoveStream(gpu);
  return result;
}

template <typename Call>
CUresult DestroyStream(CUstream stream, Call call) {
  const EntryGuard guard;
  const uint32_t gpu = guard.active() ? Self().devices.CurrentGpu() : Devices::kNotGranted;
  if (guard.active()) Self().streams.OnStreamDestroy(stream);
  const CUresult result = call();
  if (gpu != Devices::kNotGranted && result == CUDA_SUCCESS) Self().contexts.RemoveStream(gpu);
  return result;
}

CUresult Begun(CUresult result, bool active) {
  if (active && result == CUDA_SUCCESS) Self().captures.fetch_add(1);
  return result;
}

// A capture that failed has ended too.
CUresult Ended(CUresult result, bool active) {
  if (active && result != CUDA_ERROR_ILLEGAL_STATE && result != CUDA_ERROR_INVALID_HANDLE) {
    uint32_t count = Self().captures.load();
    while (count != 0 && !Self().captures.compare_exchange_weak(count, count - 1)) {
    }
  }
  return result;
}

}  // namespace

CUresult cuStreamSynchronize(CUstream stream) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuStreamSynchronize(stream);
  return SynchronizeStream(stream, DefaultStream::kLegacy,
                           [&] { return Real().cuStreamSynchronize(stream); });
}

CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuStreamSynchronize_ptsz(stream);
  return SynchronizeStream(stream, DefaultStream::kPerThread,
                           [&] { return Real().cuStreamSynchronize_ptsz(stream); });
}

CUresult cuCtxSynchronize() {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuCtxSynchronize();
  return SynchronizeContext(reinterpret_cast<CUcontext>(CurrentContextNumber()),
                            [] { return Real().cuCtxSynchronize(); });
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuCtxSynchronize_v2(context);
  return SynchronizeContext(context, [&] { return Real().cuCtxSynchronize_v2(context); });
}

// The event's stream is not known: all that may be behind it gets its marker.
CUresult cuEventSynchronize(CUevent event) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuEventSynchronize(event);
  Process& self = Self();
  if (self.captures.load(std::memory_order_relaxed) == 0) {
    self.streams.PutMarkersOfContext(reinterpret_cast<CUcontext>(CurrentContextNumber()));
  }
  const CUresult result = Real().cuEventSynchronize(event);
  if (result == CUDA_SUCCESS) SettlePools();
  return result;
}

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return CreateStream([&] { return Real().cuStreamCreate(stream, flags); });
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  return CreateStream([&] { return Real().cuStreamCreateWithPriority(stream, flags, priority); });
}

CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned int flags,
                                int priority) {
  return CreateStream(
      [&] { return Real().cuGreenCtxStreamCreate(stream, context, flags, priority); });
}

CUresult cuStreamDestroy(CUstream stream) {
  return DestroyStream(stream, [&] { return Real().cuStreamDestroy(stream); });
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  return DestroyStream(stream, [&] { return Real().cuStreamDestroy_v2(stream); });
}

CUresult cuStreamBeginCapture(CUstream stream) {
  const EntryGuard guard;
  return Begun(Real().cuStreamBeginCapture(stream), guard.active());
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  const EntryGuard guard;
  return Begun(Real().cuStreamBeginCapture_ptsz(stream), guard.active());
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  const EntryGuard guard;
  return Begun(Real().cuStreamBeginCapture_v2(stream, mode), guard.active());
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  const EntryGuard guard;
  return Begun(Real().cuStreamBeginCapture_v2_ptsz(stream, mode), guard.active());
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData* edges,
                                     size_t count, CUstreamCaptureMode mode) {
  const EntryGuard guard;
  return Begun(Real().cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode),
               guard.active());
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                          const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* edges, size_t count,
                                          CUstreamCaptureMode mode) {
  const EntryGuard guard;
  return Begun(
      Real().cuStreamBeginCaptureToGraph_ptsz(stream, graph, dependencies, edges, count, mode),
      guard.active());
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const EntryGuard guard;
  return Ended(Real().cuStreamEndCapture(stream, graph), guard.active());
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  const EntryGuard guard;
  return Ended(Real().cuStreamEndCapture_ptsz(stream, graph), guard.active());
}
