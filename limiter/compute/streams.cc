#include "limiter/compute/streams.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "limiter/driver/relaxed_capture.h"

namespace krux::limiter {
namespace {

constexpr size_t kMarkerPageBytes = 4096;
constexpr uint32_t kMarkersPerPage = kMarkerPageBytes / sizeof(uint64_t);

thread_local uint64_t cached_key = 0;
thread_local uint64_t cached_generation = 0;
thread_local Stream* cached_stream = nullptr;
thread_local uint64_t thread_number = 0;

uint64_t ThreadNumber() {
  if (thread_number == 0) thread_number = static_cast<uint64_t>(syscall(SYS_gettid));
  return thread_number;
}

CUcontext CurrentContext() {
  CUcontext context = nullptr;
  Real().cuCtxGetCurrent(&context);
  return context;
}

// Registered with the current context. On failure address is 0.
void RegisterMarkerPage(std::atomic<uint64_t>** words, CUdeviceptr* address) {
  *address = 0;
  *words = static_cast<std::atomic<uint64_t>*>(MapPages(kMarkerPageBytes));
  if (*words == nullptr) return;
  const RelaxedCapture relaxed;
  if (Real().cuMemHostRegister_v2(*words, kMarkerPageBytes, CU_MEMHOSTREGISTER_DEVICEMAP) !=
      CUDA_SUCCESS) {
    return;
  }
  if (Real().cuMemHostGetDevicePointer_v2(address, *words, 0) != CUDA_SUCCESS) *address = 0;
}

}  // namespace

CUstream Streams::Resolve(CUstream stream, DefaultStream default_stream) {
  if (stream != nullptr) return stream;
  return default_stream == DefaultStream::kPerThread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

// The default streams are one per context, and one per context and thread.
uint64_t Streams::KeyOf(CUstream stream) {
  const auto handle = reinterpret_cast<uint64_t>(stream);
  if (stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD) return handle;
  uint64_t key = MixBits(reinterpret_cast<uint64_t>(CurrentContext())) ^ handle;
  if (stream == CU_STREAM_PER_THREAD) key ^= MixBits(ThreadNumber() << 8);
  return key | 1;
}

Stream* Streams::Find(CUstream stream, uint32_t gpu) {
  const uint64_t key = KeyOf(stream);
  const uint64_t generation = generation_.load(std::memory_order_acquire);
  if (cached_key == key && cached_generation == generation) return cached_stream;
  const LockGuard guard(lock_);
  Stream** found = by_key_.Find(key);
  Stream* result = found != nullptr ? *found : MakeLocked(stream, gpu, key);
  if (result != nullptr) {
    cached_key = key;
    cached_generation = generation;
    cached_stream = result;
  }
  return result;
}

Stream* Streams::FindExisting(CUstream stream) {
  const uint64_t key = KeyOf(stream);
  if (cached_key == key && cached_generation == generation_.load(std::memory_order_acquire)) {
    return cached_stream;
  }
  const LockGuard guard(lock_);
  Stream** found = by_key_.Find(key);
  return found == nullptr ? nullptr : *found;
}

Stream* Streams::MakeLocked(CUstream stream, uint32_t gpu, uint64_t key) {
  CUcontext context = nullptr;
  if (Real().cuStreamGetCtx(stream, &context) != CUDA_SUCCESS || context == nullptr) {
    context = CurrentContext();
  }
  Stream* made = TakePlaceLocked(context);
  Stream** row = made == nullptr ? nullptr : by_key_.Insert(key);
  if (row == nullptr) return nullptr;
  made->handle = stream;
  made->key = key;
  made->gpu.store(gpu, std::memory_order_relaxed);
  made->context.store(context, std::memory_order_relaxed);
  if (made->marker_address == 0) GiveMarkerLocked(*made);
  {
    const LockGuard guard(made->track.lock());
    made->track.Begin(pace_, costs_, made->marker_address == 0 ? nullptr : made->marker);
  }
  made->state.store(Stream::kLive, std::memory_order_release);
  *row = made;
  return made;
}

// A place whose stream has left and is done; its marker belongs to its context.
Stream* Streams::TakePlaceLocked(CUcontext context) {
  const uint32_t count = count_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    Stream& place = At(i);
    const uint32_t state = place.state.load(std::memory_order_acquire);
    if (state == Stream::kFree) return &place;
    if (state != Stream::kLeaving || place.context.load(std::memory_order_relaxed) != context) {
      continue;
    }
    const LockGuard guard(place.track.lock());
    if (place.track.Finished(TicksNow())) return &place;
  }
  if (count == kPerBlock * kBlocks) return nullptr;
  Stream*& block = blocks_[count / kPerBlock];
  if (block == nullptr) {
    void* memory = MapPages(kPerBlock * sizeof(Stream));
    if (memory == nullptr) return nullptr;
    block = static_cast<Stream*>(memory);
    for (uint32_t i = 0; i < kPerBlock; ++i) new (&block[i]) Stream;
  }
  count_.store(count + 1, std::memory_order_release);
  return &At(count);
}

void Streams::GiveMarkerLocked(Stream& stream) {
  const CUcontext context = stream.context.load(std::memory_order_relaxed);
  stream.marker = nullptr;
  stream.marker_address = 0;
  MarkerPage* page = marker_pages_.Insert(reinterpret_cast<uint64_t>(context));
  if (page == nullptr) return;
  if (page->words == nullptr || page->used == kMarkersPerPage) {
    RegisterMarkerPage(&page->words, &page->address);
    page->used = 0;
  }
  if (page->address == 0) return;
  stream.marker = page->words + page->used;
  stream.marker_address = page->address + page->used * sizeof(uint64_t);
  ++page->used;
}

void Streams::PutMarkerLocked(Stream& stream) {
  StreamTrack& track = stream.track;
  if (!track.HasUnmarked()) return;
  if (stream.marker_address == 0) return SynchronizeLocked(stream);
  uint64_t value = track.NextMarker();
  if (value == 0) {
    track.Observe(TicksNow());
    value = track.NextMarker();
    if (value == 0) return;  // many are under way; the next call marks this work too
  }
  const CUresult result =
      Real().cuStreamWriteValue64_v2(stream.handle, stream.marker_address, value, 0);
  if (result == CUDA_SUCCESS) return track.OnMarkerPut(TicksNow());
  // Any other error is this call's or the stream's: the work stays unmarked, its time decides.
  if (result != CUDA_ERROR_NOT_SUPPORTED) return;
  stream.marker_address = 0;
  SynchronizeLocked(stream);
}

// Without markers the only sign that work is done is a wait for it.
void Streams::SynchronizeLocked(Stream& stream) {
  const RelaxedCapture relaxed;
  const uint64_t issued = stream.track.BeginSynchronize();
  Real().cuStreamSynchronize(stream.handle);
  stream.track.EndSynchronize(issued, TicksNow());
}

void Streams::PutMarkersOfContext(CUcontext context) {
  if (context != CurrentContext()) return;  // the driver would refuse them
  ForEach([&](Stream& stream) {
    if (stream.context.load(std::memory_order_relaxed) != context) return;
    const LockGuard guard(stream.track.lock());
    if (stream.state.load(std::memory_order_relaxed) == Stream::kLive &&
        stream.track.UnmarkedCost() > pace_->tail_slack) {
      PutMarkerLocked(stream);
    }
  });
}

void Streams::OnStreamDestroy(CUstream stream) {
  const uint64_t key = KeyOf(stream);
  const LockGuard guard(lock_);
  Stream** found = by_key_.Find(key);
  if (found == nullptr) return;
  Stream& leaving = **found;
  {
    const LockGuard track_guard(leaving.track.lock());
    PutMarkerLocked(leaving);
  }
  leaving.state.store(Stream::kLeaving, std::memory_order_release);
  by_key_.Remove(key);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

void Streams::OnContextGone(CUcontext context) {
  const LockGuard guard(lock_);
  ForEach([&](Stream& stream) {
    if (stream.context.load(std::memory_order_relaxed) != context) return;
    const LockGuard track_guard(stream.track.lock());
    stream.track.Abandon();
    stream.marker = nullptr;
    stream.marker_address = 0;
    Stream** row = by_key_.Find(stream.key);
    if (row != nullptr && *row == &stream) by_key_.Remove(stream.key);
    stream.state.store(Stream::kFree, std::memory_order_release);
  });
  // The page itself stays mapped: the keeper may be reading from it.
  marker_pages_.Remove(reinterpret_cast<uint64_t>(context));
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

void Streams::ForgetAfterFork() {
  lock_.Forget();
  by_key_.Forget();
  marker_pages_.Forget();
  count_.store(0, std::memory_order_relaxed);
  for (Stream*& block : blocks_) block = nullptr;
  generation_.fetch_add(1, std::memory_order_relaxed);
  thread_number = 0;
}

}  // namespace krux::limiter
