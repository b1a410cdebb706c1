#include <algorithm>
#include <map>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/thread_state.h"

namespace krux::sim {
namespace {

std::atomic<uint64_t> g_next_stream_id{1};

// CU_STREAM_PER_THREAD of this thread in this context; made on first use, lives with the context.
Stream* PerThreadStream(Context* context) {
  static thread_local std::map<uint64_t, Stream*> streams;
  ThreadState& thread = ThisThread();
  if (thread.stream_context == context->id) return thread.stream;
  Stream*& stream = streams[context->id];
  if (stream == nullptr) stream = CreateOwnStream(context, 0, 0);
  if (stream == nullptr) return nullptr;  // another time, when the card has room
  thread.stream_context = context->id;
  thread.stream = stream;
  return stream;
}

// The legacy stream's rule: its work comes after all earlier work of blocking streams, and theirs
// after its.
std::unique_ptr<std::vector<MarkPtr>> LegacyRule(Stream* stream) {
  Context* context = stream->context;
  Engine& engine = context->device->engine();
  auto marks = std::make_unique<std::vector<MarkPtr>>();
  auto add = [&](Stream* other) {
    if (MarkPtr mark = engine.Tail(&other->queue)) marks->push_back(std::move(mark));
  };
  if (!stream->is_legacy) {
    add(context->legacy);
  } else {
    const std::lock_guard<std::mutex> lock(context->mutex);
    for (Stream* other : context->streams) {
      if (other != stream && other->is_blocking()) add(other);
    }
  }
  return marks->empty() ? nullptr : std::move(marks);
}

// What so many streams take on an H200 (1 to 256 measured): 512 KiB and 48 KiB each, in chunks of
// 2 MiB for either. The context has the first 512 KiB and the first chunk for the others.
uint64_t StreamBytes(size_t streams) {
  constexpr size_t kLargePerChunk = 4;
  constexpr size_t kSmallPerChunk = 42;
  if (streams == 0) return 0;
  const size_t large = (streams - 1 + kLargePerChunk - 1) / kLargePerChunk;
  const size_t small = (streams + kSmallPerChunk - 1) / kSmallPerChunk - 1;
  return (large + small) * kChunkBytes;
}

}  // namespace

Stream* CreateOwnStream(Context* context, unsigned flags, int priority) {
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    // Memory of streams that are gone is for the next ones.
    const uint64_t needed = StreamBytes(context->made_streams + 1);
    if (needed > context->stream_bytes) {
      if (!context->device->memory().Charge(needed - context->stream_bytes)) return nullptr;
      context->stream_bytes = needed;
    }
    ++context->made_streams;
  }
  return CreateStream(context, flags, priority);
}

Stream* CreateStream(Context* context, unsigned flags, int priority) {
  Stream* stream = Make<Stream>();
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = g_next_stream_id.fetch_add(1);
  const std::lock_guard<std::mutex> lock(context->mutex);
  const bool is_first = context->streams.empty();  // the legacy stream itself
  context->streams.insert(stream);
  if (!is_first && stream->is_blocking()) context->blocking_streams.fetch_add(1);
  return stream;
}

Stream* FindStream(CUstream handle, Context* context) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return context->legacy;
  if (handle == CU_STREAM_PER_THREAD) return PerThreadStream(context);
  return Checked<Stream>(handle);
}

void DestroyStream(Stream* stream) {
  Context* context = stream->context;
  AbandonCapture(stream);
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    context->streams.erase(stream);
    --context->made_streams;
    if (stream->is_blocking()) context->blocking_streams.fetch_sub(1);
  }
  // The real driver returns at once and lets the work run on; here the work keeps its queue, so the
  // caller waits for it.
  WaitForStream(stream);
  Bury(stream);
}

CUresult SubmitTo(Stream* stream, Operation operation) {
  Context* context = stream->context;
  Engine& engine = context->device->engine();
  if (engine.is_lost()) return CUDA_ERROR_UNKNOWN;
  const bool has_rule =
      stream->is_legacy
          ? context->blocking_streams.load(std::memory_order_relaxed) > 0
          : stream->is_blocking() && context->legacy_used.load(std::memory_order_relaxed);
  if (has_rule) {
    if (auto marks = LegacyRule(stream)) {
      if (operation.after) {
        marks->insert(marks->end(), operation.after->begin(), operation.after->end());
      }
      operation.after = std::move(marks);
    }
  }
  if (stream->is_legacy) context->legacy_used.store(true, std::memory_order_relaxed);
  engine.Submit(&stream->queue, std::move(operation));
  return CUDA_SUCCESS;
}

void WaitForStream(Stream* stream) { stream->context->device->engine().Drain(&stream->queue); }

}  // namespace krux::sim
