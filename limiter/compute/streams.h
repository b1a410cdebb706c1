// All streams of the process on which something was launched: finds the track of a launch, gives
// each stream a place for its markers, and lets streams go with their contexts.
//
// Tracks are never freed, only used again, so the keeper can walk them without a lock.
//
// Thread rule: Find, the marker calls and the On... calls by the application's threads, inside
// their own CUDA calls (they call the driver); ForEach by anyone.
#ifndef KRUX_LIMITER_COMPUTE_STREAMS_H_
#define KRUX_LIMITER_COMPUTE_STREAMS_H_

#include <atomic>
#include <cstdint>

#include "limiter/compute/stream_track.h"
#include "limiter/driver/cuda_api.h"
#include "limiter/life/lock.h"
#include "limiter/life/table.h"

namespace krux::limiter {

// Which default stream a null handle means: that of the entry's name.
enum class DefaultStream { kLegacy, kPerThread };

struct Stream {
  enum State : uint32_t { kFree, kLive, kLeaving };  // kLeaving: destroyed, work may still run

  StreamTrack track;
  std::atomic<uint32_t> state{kFree};
  std::atomic<uint32_t> gpu{0};
  std::atomic<CUcontext> context{nullptr};
  CUstream handle = nullptr;  // never null: the default streams have special handles
  std::atomic<uint64_t>* marker = nullptr;
  CUdeviceptr marker_address = 0;  // the marker as the GPU sees it; 0: no markers here
  uint64_t key = 0;
  // Room beyond the usual bound, while last_progress() is still that: work that waits for something
  // outside its stream must not cost a wait for each launch.
  std::atomic<Ticks> extra_room{0};
  std::atomic<Ticks> extra_room_since{0};
};

class Streams {
 public:
  void Init(const Pace* pace, CostModel* costs) {
    pace_ = pace;
    costs_ = costs;
  }

  // Stops and resumes the learning of costs.
  void FreezeCosts(bool frozen) { costs_->Freeze(frozen); }

  // The handle with the default stream made explicit.
  static CUstream Resolve(CUstream stream, DefaultStream default_stream);

  // nullptr when there is no memory for it: the caller then synchronizes after its launch.
  // REQUIRES: `stream` was resolved.
  Stream* Find(CUstream stream, uint32_t gpu);
  // The same without making one.
  Stream* FindExisting(CUstream stream);

  // Writes a marker behind what was recorded, if there is something unmarked. Under track.lock().
  // A stream on which the driver refuses markers is synchronized instead.
  void PutMarkerLocked(Stream& stream);
  // For all live streams of the context whose unmarked work is worth it.
  void PutMarkersOfContext(CUcontext context);

  // Before the driver destroys a stream; when it refused, the stream is simply found anew.
  void OnStreamDestroy(CUstream stream);
  // After a context is gone.
  void OnContextGone(CUcontext context);

  template <typename Visit>
  void ForEach(Visit visit) {
    const uint32_t count = count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; ++i) {
      Stream& stream = At(i);
      if (stream.state.load(std::memory_order_acquire) != Stream::kFree) visit(stream);
    }
  }

  void ForgetAfterFork();

 private:
  static constexpr uint32_t kPerBlock = 64, kBlocks = 64;

  struct MarkerPage {
    std::atomic<uint64_t>* words;
    CUdeviceptr address;
    uint32_t used;
  };

  Stream& At(uint32_t index) { return blocks_[index / kPerBlock][index % kPerBlock]; }
  uint64_t KeyOf(CUstream stream);
  Stream* MakeLocked(CUstream stream, uint32_t gpu, uint64_t key);
  Stream* TakePlaceLocked(CUcontext context);
  void GiveMarkerLocked(Stream& stream);
  void SynchronizeLocked(Stream& stream);

  const Pace* pace_ = nullptr;
  CostModel* costs_ = nullptr;
  Lock lock_;
  Table<Stream*> by_key_;
  Table<MarkerPage> marker_pages_;  // by context
  Stream* blocks_[kBlocks] = {};
  std::atomic<uint32_t> count_{0};
  std::atomic<uint64_t> generation_{1};  // raised when a key changes its meaning
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_COMPUTE_STREAMS_H_
