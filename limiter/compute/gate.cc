#include "limiter/compute/gate.h"

#include <algorithm>

#include "limiter/life/futex.h"
#include "limiter/life/log.h"

namespace krux::limiter {
namespace {

constexpr int64_t kMillisecondNanos = 1000000;
// A closed gate looks again this often, for the loss of the agent and for the escape.
constexpr int64_t kLookEvery = 20 * kMillisecondNanos;
constexpr uint64_t kWantAgainAfter = 500, kSilentAfter = 2000;  // milliseconds
// A launch takes about so long to reach the GPU; and how long before the end a thread is awake.
constexpr Ticks kAheadOfEndUs = 15, kSpinBeforeEndUs = 90;
constexpr Ticks kSilentAgent = 60;                          // milliseconds
constexpr uint64_t kEscapeAfter = 20, kEscapeAtMost = 320;  // milliseconds

// What a stream still has in flight, by a look at its marker just now.
Ticks OutstandingNow(Stream& stream, Ticks now) {
  if (stream.track.lock().TryAcquire()) {
    stream.track.Finished(now);
    stream.track.lock().Release();
  }
  return stream.track.outstanding_launches() == 0 ? 0 : stream.track.outstanding_cost();
}

bool Held(uint32_t lease_word) { return (lease_word & 1) != 0; }
uint32_t EpochOf(uint32_t lease_word) { return lease_word >> 1; }

bool IsOver(const GpuLimits& lease) {
  const Ticks end = lease.lease_end_tsc.load(std::memory_order_acquire);
  return end != UINT64_MAX && TicksNow() >= end;
}

}  // namespace

struct Gate::Wait {
  Ticks since = 0;
  std::atomic<uint32_t>* blocked = nullptr;  // the account's counter, once this thread is in it
  bool complained = false;
  Ticks until_window = 0;
  Ticks escape_after = 0;
};

void Gate::Init(const LimitsPage* limits, const Pace* pace, void (*wake)()) {
  limits_ = limits;
  pace_ = pace;
  wake_ = wake;
  millisecond_ = TickRate(limits->tsc_per_second.load()).FromNanos(kMillisecondNanos);
  microsecond_ = millisecond_ / 1000;
}

void Gate::Enter(uint32_t gpu, Stream* stream, Ticks predicted) {
  ThreadWords::Word& word = words_->Mine();
  if (__builtin_expect(TryEnter(gpu, stream, word), 1)) return;
  EnterSlowly(gpu, stream, predicted, word);
}

// The word is set before the lease is read (both sequentially consistent): whoever ends a lease
// first changes it and then reads the words, so one of the two sees the other.
bool Gate::TryEnter(uint32_t gpu, const Stream* stream, ThreadWords::Word& word) {
  word.Enter(stream);
  const GpuLimits& lease = limits_->gpus[gpu];
  const uint32_t lease_word = lease.lease_word.load(std::memory_order_seq_cst);
  const uint32_t active = account_->Mine(gpu)->active_epoch.load(std::memory_order_seq_cst);
  if (Held(lease_word) && active == EpochOf(lease_word) && !IsOver(lease)) return true;
  word.Leave();
  return false;
}

// The first launch under a lease: says so in the account, then looks whether it still holds.
bool Gate::TryActivate(uint32_t gpu, uint32_t lease_word, const Stream* stream,
                       ThreadWords::Word& word) {
  const GpuLimits& lease = limits_->gpus[gpu];
  std::atomic<uint32_t>& active = account_->Mine(gpu)->active_epoch;
  const uint32_t epoch = EpochOf(lease_word);
  word.Enter(stream);
  const bool first = active.exchange(epoch, std::memory_order_seq_cst) != epoch;
  const bool valid =
      lease.lease_word.load(std::memory_order_seq_cst) == lease_word && !IsOver(lease);
  if (!valid) word.Leave();
  // When it is not valid any more the keeper clears the epoch that was set.
  if (first || !valid) wake_();
  if (!valid) return false;
  if (idle_said_[gpu].exchange(0, std::memory_order_seq_cst) == epoch) {
    link_->Send(wire::EventKind::kWant, gpu, 0);
  }
  return true;
}

bool Gate::InWindow(uint32_t gpu, Stream* stream, Ticks predicted, Ticks now,
                    Ticks* until_window) const {
  const GpuLimits& window = limits_->gpus[gpu];
  const Ticks cycle = window.window_cycle.load(std::memory_order_acquire);
  const Ticks begin = window.window_begin.load(std::memory_order_acquire);
  const Ticks width = window.window_width.load(std::memory_order_acquire);
  *until_window = 0;
  if (cycle == 0 || width == 0) return false;
  const Ticks place = (now - window.window_origin.load(std::memory_order_acquire)) % cycle;
  const Ticks into = (place + cycle - begin % cycle) % cycle;
  if (into >= width) {
    *until_window = cycle - into;
    return false;
  }
  const bool busy = stream != nullptr && OutstandingNow(*stream, now) != 0;
  const Ticks begin_of_this = busy ? std::max(now, stream->track.expected_done()) : now;
  // Work that would reach into somebody else's window waits, unless it can never fit.
  if (begin_of_this + predicted <= now + width - into || (!busy && into < width / 2)) return true;
  *until_window = cycle - into;
  return false;
}

// A kernel that waits for a launch which waits at the gate would never end. So when other streams
// have work that makes no progress for long, one launch is let through.
bool Gate::MayEscape(const Stream* stream, Ticks now, Wait& wait) {
  bool stuck = false;
  streams_->ForEach([&](Stream& other) {
    if (&other == stream || other.track.outstanding_launches() == 0) return;
    const Ticks outstanding = OutstandingNow(other, now);
    const Ticks quiet_since = std::max(other.track.last_progress(), other.track.expected_done());
    stuck = stuck || (outstanding != 0 && now > quiet_since + 2 * outstanding + wait.escape_after);
  });
  if (!stuck || now < wait.since + wait.escape_after) return false;
  wait.escape_after = std::min(2 * wait.escape_after, kEscapeAtMost * millisecond_);
  return true;
}

void Gate::SayWant(uint32_t gpu, uint32_t lease_word, Ticks now) {
  const uint32_t before = wanted_at_[gpu].exchange(lease_word + 1, std::memory_order_seq_cst);
  const bool said = before == lease_word + 1;
  if (said &&
      now < wanted_when_[gpu].load(std::memory_order_relaxed) + kWantAgainAfter * millisecond_) {
    return;
  }
  wanted_when_[gpu].store(now, std::memory_order_relaxed);
  // Not delivered (buffer full, agent gone): the next look says it again.
  if (!link_->Send(wire::EventKind::kWant, gpu, 0)) wanted_at_[gpu].store(0);
}

// True when the lease word has changed while this thread, as the only one, watched it.
bool Gate::WatchUntilSoon(uint32_t gpu, uint32_t lease_word) {
  const GpuLimits& lease = limits_->gpus[gpu];
  const Ticks soon = lease.soon_tsc.load(std::memory_order_acquire);
  const Ticks begin = TicksNow();
  if (begin >= soon || soon - begin > millisecond_) return false;
  if (watching_[gpu].exchange(true, std::memory_order_acquire)) return false;
  while (lease.lease_word.load(std::memory_order_acquire) == lease_word && TicksNow() < soon) {
    __builtin_ia32_pause();
  }
  watching_[gpu].store(false, std::memory_order_release);
  return lease.lease_word.load(std::memory_order_acquire) != lease_word;
}

void Gate::Sleep(uint32_t gpu, uint32_t lease_word, Wait& wait) {
  int64_t nanos = kLookEvery;
  if (wait.until_window != 0) {
    const TickRate rate(limits_->tsc_per_second.load(std::memory_order_relaxed));
    nanos = std::min<int64_t>(nanos, static_cast<int64_t>(rate.ToNanos(wait.until_window)));
  }
  if (WatchUntilSoon(gpu, lease_word)) return;
  FutexWait(&limits_->gpus[gpu].lease_word, lease_word, std::max<int64_t>(nanos, 1000),
            FutexScope::kShared);
}

// The agent has not looked after the leases for so long that it must be dead or stopped, although
// its connection still stands.
bool Gate::IsSilent(Ticks now, Ticks since) const {
  const Ticks beat = limits_->heartbeat_tsc.load(std::memory_order_relaxed);
  const Ticks patience = kSilentAgent * millisecond_;
  return beat != 0 && now > beat + patience && now > since + patience;
}

// While this thread waits nobody else can tell the keeper when its stream is done.
void Gate::MarkBehind(Stream* stream) {
  if (stream == nullptr) return;
  const LockGuard guard(stream->track.lock());
  streams_->PutMarkerLocked(*stream);
}

bool Gate::TryOnce(uint32_t gpu, Stream* stream, Ticks predicted, ThreadWords::Word& word,
                   Wait& wait) {
  const GpuLimits& lease = limits_->gpus[gpu];
  const Ticks now = TicksNow();
  wait.until_window = 0;
  const uint32_t lease_word = lease.lease_word.load(std::memory_order_seq_cst);
  const bool lost = agent_lost() || IsSilent(now, wait.since);
  if (lost) {
    if (InWindow(gpu, stream, predicted, now, &wait.until_window)) {
      word.Enter(stream);
      return true;
    }
  } else if (Held(lease_word) && !IsOver(lease)) {
    // A lease that ended between the look and the activation: look again at once.
    return TryActivate(gpu, lease_word, stream, word);
  }
  if (MayEscape(stream, now, wait)) {
    word.Enter(stream);
    return true;
  }
  if (!wait.complained && now > wait.since + kSilentAfter * millisecond_) {
    wait.complained = true;
    LogLine(lost ? "the agent of this node is gone; a launch waits until it is back"
                 : "a launch has waited 2 s for its share of the GPU and goes on waiting");
  }
  if (wait.blocked == nullptr) {
    wait.blocked = &account_->Mine(gpu)->blocked;
    wait.blocked->fetch_add(1, std::memory_order_relaxed);
    MarkBehind(stream);
  }
  if (!lost) SayWant(gpu, lease_word, now);
  Sleep(gpu, lease_word, wait);
  return false;
}

void Gate::EnterSlowly(uint32_t gpu, Stream* stream, Ticks predicted, ThreadWords::Word& word) {
  Wait wait;
  wait.since = TicksNow();
  wait.escape_after = kEscapeAfter * millisecond_;
  while (!TryOnce(gpu, stream, predicted, word, wait)) {
  }
  if (wait.blocked != nullptr) wait.blocked->fetch_sub(1, std::memory_order_relaxed);
}

struct Gate::Room {
  Ticks limit;
  bool tight;  // beside a latency tenant
};

Gate::Room Gate::RoomOf(uint32_t gpu) const {
  const uint32_t us = limits_->gpus[gpu].in_flight_us.load(std::memory_order_relaxed);
  if (__builtin_expect(us == 0, 1)) return {pace_->in_flight, false};
  return {std::min(us * microsecond_, pace_->in_flight), true};
}

bool Gate::HasRoom(const Stream& stream, Ticks predicted, Ticks limit, bool tight) {
  const StreamTrack& track = stream.track;
  const uint32_t launches = track.outstanding_launches();
  if (launches == 0 || track.outstanding_cost() + predicted <= limit) return true;
  if (!tight && launches < 2) return true;
  return stream.extra_room_since.load(std::memory_order_relaxed) == track.last_progress() &&
         track.outstanding_cost() + predicted <=
             limit + stream.extra_room.load(std::memory_order_relaxed);
}

// Before the end of a long kernel the last part of the wait is spun: the sleep of an ordinary
// thread may last 50 us longer than asked, which the GPU would stand idle.
void Gate::SleepForRoom(const Stream& stream, const Room& room, uint64_t* nanos) const {
  if (room.tight && stream.track.outstanding_launches() == 1) {
    const Ticks now = TicksNow();
    const Ticks wake = stream.track.expected_done() - kSpinBeforeEndUs * microsecond_;
    const TickRate rate(limits_->tsc_per_second.load(std::memory_order_relaxed));
    if (wake > now && wake - now < millisecond_ * 1000) return SleepNanos(rate.ToNanos(wake - now));
    if (now < wake + 2 * kSpinBeforeEndUs * microsecond_) return __builtin_ia32_pause();
  }
  SleepNanos(*nanos);
}

void Gate::WaitForRoom(uint32_t gpu, Stream& stream, Ticks predicted) {
  const Room room = RoomOf(gpu);
  if (__builtin_expect(HasRoom(stream, predicted, room.limit, room.tight), 1)) return;
  StreamTrack& track = stream.track;
  const TickRate rate(limits_->tsc_per_second.load(std::memory_order_relaxed));
  const Ticks since = TicksNow();
  const Ticks patience = std::max(2 * track.outstanding_cost(), 2 * millisecond_);
  const uint64_t longest = std::max<uint64_t>(50000, rate.ToNanos(patience) / 64);
  uint64_t nanos = 5000;
  // Once full, let a quarter drain: waking for every launch would cost more than it gives.
  while (!HasRoom(stream, predicted, room.limit * 3 / 4, room.tight)) {
    const Ticks now = TicksNow();
    {
      const LockGuard guard(track.lock());
      if (track.Observe(now)) nanos = 5000;
      // Much may be done that nobody has looked at yet.
      if (HasRoom(stream, predicted, room.limit, room.tight)) return;
      if (track.HasUnmarked()) streams_->PutMarkerLocked(stream);
    }
    // The next one is on its way when this one ends.
    const bool ends = room.tight && track.outstanding_launches() == 1 &&
                      now + kAheadOfEndUs * microsecond_ >= track.expected_done();
    if (ends) return;
    if (now > std::max(since, track.last_progress()) + patience) {
      stream.extra_room.store(track.outstanding_cost() + pace_->in_flight,
                              std::memory_order_relaxed);
      stream.extra_room_since.store(track.last_progress(), std::memory_order_relaxed);
      return;
    }
    SleepForRoom(stream, room, &nanos);
    nanos = std::min(nanos * 2, longest);
  }
}

void Gate::ForgetAfterFork() {
  agent_lost_.store(false, std::memory_order_relaxed);
  for (std::atomic<uint32_t>& word : wanted_at_) word.store(0, std::memory_order_relaxed);
  for (std::atomic<uint32_t>& word : idle_said_) word.store(0, std::memory_order_relaxed);
  for (std::atomic<bool>& watching : watching_) watching.store(false, std::memory_order_relaxed);
}

}  // namespace krux::limiter
