// What one stream has in flight: launches since the last marker, markers that the GPU has not yet
// written, and from the times at which they appear the cost of launches.
//
// A marker is a number that the GPU writes into our memory behind the launches before it
// (cuStreamWriteValue64). The track itself calls no driver: the caller writes the marker and says
// so.
//
// Nobody watches a marker all the time: one that is seen now was passed some time since the look
// that did not see it. Costs are learned where that time is short against what was measured, so
// late looks do not stretch them, nor shift the time at which the stream is expected to be done.
//
// Thread rule: all methods under lock(), except the ones marked "no lock".
#ifndef KRUX_LIMITER_COMPUTE_STREAM_TRACK_H_
#define KRUX_LIMITER_COMPUTE_STREAM_TRACK_H_

#include <atomic>
#include <cstdint>

#include "limiter/compute/cost_model.h"
#include "limiter/life/lock.h"
#include "limiter/life/time.h"

namespace krux::limiter {

// Planning figures in ticks, made from the tick rate once.
struct Pace {
  Ticks in_flight = 0;   // predicted work that a stream may have outstanding
  Ticks unknown = 0;     // assumed for a launch that was never seen
  Ticks per_marker = 0;  // predicted work after which a marker is put
  Ticks tail_slack = 0;  // certainty added to the prediction of an unmarked tail
  Ticks exact_from = 0;  // a synchronized span at least this long is exact evidence
  static constexpr uint32_t kLaunchesPerMarker = 256;

  static Pace At(const TickRate& rate);
};

class StreamTrack {
 public:
  Lock& lock() { return lock_; }

  // Makes the track a new stream's. `marker` is where the GPU writes, nullptr: no markers here.
  void Begin(const Pace* pace, CostModel* costs, std::atomic<uint64_t>* marker);

  // A launch is about to be given to the driver. Returns what it is expected to take. Reading the
  // clock is half of what a launch costs here, so only the first launch behind a marker needs it.
  Ticks Record(Cost& cost, Ticks now);
  bool WantsTime() const { return open_.launches == 0; }
  // The driver refused it.
  void TakeBack(Cost& cost, Ticks predicted);
  // Whether the launches since the last marker want one now.
  bool WantsMarker() const;
  bool HasUnmarked() const { return open_.launches != 0; }
  Ticks UnmarkedCost() const { return open_.cost; }
  // The value of the next marker; 0 when too many are under way (ask again later).
  uint64_t NextMarker();
  // It was written into the stream behind everything recorded so far.
  void OnMarkerPut(Ticks now);

  // Looks at the marker. True when something has finished since the last look.
  bool Observe(Ticks now);

  // Around a synchronize of the stream: what was issued before it is done when it returns.
  // `certain` false: a launch may have been between Record and the driver when the wait began.
  uint64_t BeginSynchronize();
  void EndSynchronize(uint64_t issued_before, Ticks now, bool certain = true);

  // Whether all work is done: certain by markers and synchronizes; for an unmarked tail by its
  // predicted time and a slack, from the first look that saw all of it.
  bool Finished(Ticks now);
  // The context is gone, and all work with it.
  void Abandon();

  // No lock: readings for bounds and sleeps.
  Ticks outstanding_cost() const { return outstanding_cost_.load(std::memory_order_relaxed); }
  uint32_t outstanding_launches() const {
    return outstanding_launches_.load(std::memory_order_relaxed);
  }
  uint64_t issued() const { return issued_.load(std::memory_order_relaxed); }
  Ticks expected_done() const { return expected_done_.load(std::memory_order_relaxed); }
  Ticks last_progress() const { return last_progress_.load(std::memory_order_relaxed); }

  void ForgetAfterFork() { lock_.Forget(); }

 private:
  static constexpr uint32_t kRing = 64;
  static constexpr uint32_t kKinds = 4;

  struct Batch {
    Ticks cost;   // predicted
    Ticks first;  // when its first launch was issued
    uint32_t launches;
    uint32_t kinds;
    Cost* kind[kKinds];
    uint32_t count[kKinds];
  };

  void Finish(const Batch& batch);
  void FinishAll(Ticks now);
  void ExpectFrom(Ticks not_before);
  void LearnFromMarkers(uint64_t newest, Ticks predicted, Ticks elapsed, Evidence evidence);
  void LearnFrom(const Batch& batch, Ticks predicted, Ticks elapsed, Evidence evidence);

  Lock lock_;
  const Pace* pace_ = nullptr;
  CostModel* costs_ = nullptr;
  std::atomic<uint64_t>* marker_ = nullptr;
  uint64_t put_ = 0;          // markers written into the stream
  uint64_t seen_ = 0;         // markers that the GPU has passed
  Batch open_{};              // behind the last marker
  Batch ring_[kRing]{};       // batch before marker m at m % kRing
  Ticks busy_since_ = 0;      // when the last finished work ended, or the first of this began
  Ticks uncertainty_ = 0;     // of busy_since_, either way
  Ticks looked_at_ = 0;       // the next marker was not passed then
  uint64_t tail_issued_ = 0;  // at the look that saw the unmarked tail as it is now,
  Ticks tail_done_ = 0;       // and when that should be done
  uint32_t synchronizing_ = 0;
  std::atomic<uint64_t> issued_{0};
  std::atomic<Ticks> outstanding_cost_{0};
  std::atomic<uint32_t> outstanding_launches_{0};
  std::atomic<Ticks> expected_done_{0};
  std::atomic<Ticks> last_progress_{0};
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_COMPUTE_STREAM_TRACK_H_
