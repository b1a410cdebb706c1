// The gate that every launch passes: it holds when the container does not have the GPU, and it
// bounds what a stream has in flight.
//
//   Admission admission(gate, gpu, stream, cost);   // may wait; then the launching word is set
//   result = real launch;
//   if (result == CUDA_SUCCESS) admission.Launched();
//   // the destructor clears the word
//
// Open gate: one atomic exchange, a look at the lease word (and at the TSC where the lease has an
// end, or a batch begins), a lock of the stream's track; behind the driver's call nothing but a
// plain store. Closed
// gate: wait on the lease word, which the agent wakes.
//
// Without an agent the leases are void and the windows of the limits page count (pages.h).
//
// Thread rule: thread-safe. Never called while a lock of the limiter is held.
#ifndef KRUX_LIMITER_COMPUTE_GATE_H_
#define KRUX_LIMITER_COMPUTE_GATE_H_

#include <atomic>
#include <cstdint>

#include "limiter/compute/cost_model.h"
#include "limiter/compute/streams.h"
#include "limiter/compute/thread_words.h"
#include "limiter/life/agent_link.h"
#include "limiter/life/time.h"
#include "limiter/memory/account.h"
#include "protocol/pages.h"

namespace krux::limiter {

class Gate {
 public:
  constexpr Gate(Account* account, AgentLink* link, Streams* streams, ThreadWords* words)
      : account_(account), link_(link), streams_(streams), words_(words) {}

  // Before the first launch. `wake` makes the keeper look at once.
  void Init(const LimitsPage* limits, const Pace* pace, void (*wake)());

  // Waits until a launch on the GPU may begin; returns with the thread's launching word set.
  // `stream` may be nullptr.
  void Enter(uint32_t gpu, Stream* stream, Ticks predicted);
  void Leave() { words_->Mine().Leave(); }

  // Waits while the stream has its fill in flight. Before Enter. Beside a latency tenant the fill
  // is small (GpuLimits::in_flight_us): then a launch that alone is more than it is let in at the
  // predicted end of the one before.
  void WaitForRoom(uint32_t gpu, Stream& stream, Ticks predicted);

  // The keeper's words to the gate.
  void SetAgentLost(bool lost) { agent_lost_.store(lost, std::memory_order_seq_cst); }
  bool agent_lost() const { return agent_lost_.load(std::memory_order_seq_cst); }
  // The keeper has told the agent that this lease is idle: the next launch says that it is not.
  void NoteIdleSaid(uint32_t gpu, uint32_t epoch) {
    idle_said_[gpu].store(epoch, std::memory_order_seq_cst);
  }

  void ForgetAfterFork();

 private:
  struct Wait;

  struct Room;

  Room RoomOf(uint32_t gpu) const;
  static bool HasRoom(const Stream& stream, Ticks predicted, Ticks limit, bool tight);
  void SleepForRoom(const Stream& stream, const Room& room, uint64_t* nanos) const;

  bool TryEnter(uint32_t gpu, const Stream* stream, ThreadWords::Word& word);
  bool TryActivate(uint32_t gpu, uint32_t lease_word, const Stream* stream,
                   ThreadWords::Word& word);
  bool InWindow(uint32_t gpu, Stream* stream, Ticks predicted, Ticks now,
                Ticks* until_window) const;
  bool IsSilent(Ticks now, Ticks since) const;
  bool MayEscape(const Stream* stream, Ticks now, Wait& wait);
  void EnterSlowly(uint32_t gpu, Stream* stream, Ticks predicted, ThreadWords::Word& word);
  bool TryOnce(uint32_t gpu, Stream* stream, Ticks predicted, ThreadWords::Word& word, Wait& wait);
  void MarkBehind(Stream* stream);
  bool WatchUntilSoon(uint32_t gpu, uint32_t lease_word);
  void Sleep(uint32_t gpu, uint32_t lease_word, Wait& wait);
  void SayWant(uint32_t gpu, uint32_t lease_word, Ticks now);

  Account* account_;
  AgentLink* link_;
  Streams* streams_;
  ThreadWords* words_;
  const LimitsPage* limits_ = nullptr;
  const Pace* pace_ = nullptr;
  void (*wake_)() = nullptr;
  Ticks millisecond_ = 0;
  Ticks microsecond_ = 0;
  std::atomic<bool> agent_lost_{false};
  std::atomic<uint32_t> wanted_at_[kMaxPageGpus] = {};  // the lease word at which kWant was sent
  std::atomic<Ticks> wanted_when_[kMaxPageGpus] = {};
  std::atomic<uint32_t> idle_said_[kMaxPageGpus] = {};
  std::atomic<bool> watching_[kMaxPageGpus] = {};
};

// One launch: waits in the constructor, and holds the launching word while it lives.
class Admission {
 public:
  // `stream` nullptr: not tracked (the entry synchronizes after the launch).
  Admission(Gate& gate, uint32_t gpu, Stream* stream, Cost& cost, const Pace& pace)
      : gate_(gate), stream_(stream), cost_(cost) {
    const Ticks predicted = cost.known.load(std::memory_order_relaxed)
                                ? cost.ticks.load(std::memory_order_relaxed)
                                : pace.unknown;
    if (stream != nullptr) gate.WaitForRoom(gpu, *stream, predicted);
    gate.Enter(gpu, stream, predicted);
    if (stream == nullptr) return;
    const LockGuard guard(stream->track.lock());
    predicted_ = stream->track.Record(cost, stream->track.WantsTime() ? TicksNow() : 0);
    wants_marker_ = stream->track.WantsMarker();
  }
  ~Admission() {
    if (!launched_ && stream_ != nullptr) {
      const LockGuard guard(stream_->track.lock());
      stream_->track.TakeBack(cost_, predicted_);
    }
    gate_.Leave();
  }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  void Launched(Streams& streams) {
    launched_ = true;
    if (!wants_marker_) return;
    const LockGuard guard(stream_->track.lock());
    streams.PutMarkerLocked(*stream_);
  }

 private:
  Gate& gate_;
  Stream* stream_;
  Cost& cost_;
  Ticks predicted_ = 0;
  bool wants_marker_ = false;
  bool launched_ = false;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_COMPUTE_GATE_H_
