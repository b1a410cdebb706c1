#include "limiter/compute/stream_track.h"

#include <algorithm>

namespace krux::limiter {
namespace {

constexpr uint64_t kMicros = 1000;
// How well the two ends of a span must be known to learn from it: to a quarter of it in all.
constexpr Ticks kExactPart = 4;

template <typename T>
void AddTo(std::atomic<T>& value, T delta) {
  value.store(static_cast<T>(value.load(std::memory_order_relaxed) + delta),
              std::memory_order_relaxed);
}

template <typename T>
void SubtractFrom(std::atomic<T>& value, T delta) {
  const T old = value.load(std::memory_order_relaxed);
  value.store(old > delta ? static_cast<T>(old - delta) : T{0}, std::memory_order_relaxed);
}

}  // namespace

Pace Pace::At(const TickRate& rate) {
  Pace pace;
  pace.in_flight = rate.FromNanos(4000 * kMicros);
  pace.unknown = rate.FromNanos(2000 * kMicros);
  pace.per_marker = rate.FromNanos(1000 * kMicros);
  pace.tail_slack = rate.FromNanos(100 * kMicros);
  pace.exact_from = rate.FromNanos(500 * kMicros);
  return pace;
}

void StreamTrack::Begin(const Pace* pace, CostModel* costs, std::atomic<uint64_t>* marker) {
  pace_ = pace;
  costs_ = costs;
  marker_ = marker;
  put_ = seen_ = marker == nullptr ? 0 : marker->load(std::memory_order_acquire);
  open_ = Batch{};
  busy_since_ = uncertainty_ = looked_at_ = 0;
  tail_issued_ = UINT64_MAX;
  synchronizing_ = 0;
  outstanding_cost_.store(0, std::memory_order_relaxed);
  outstanding_launches_.store(0, std::memory_order_relaxed);
  expected_done_.store(0, std::memory_order_relaxed);
  last_progress_.store(0, std::memory_order_relaxed);
}

Ticks StreamTrack::Record(Cost& cost, Ticks now) {
  const Ticks predicted = cost.known.load(std::memory_order_relaxed)
                              ? cost.ticks.load(std::memory_order_relaxed)
                              : pace_->unknown;
  if (outstanding_launches() == 0) {
    busy_since_ = now;
    uncertainty_ = 0;
    last_progress_.store(now, std::memory_order_relaxed);
  }
  if (open_.launches++ == 0) open_.first = now;
  open_.cost += predicted;
  uint32_t i = 0;
  while (i < open_.kinds && open_.kind[i] != &cost) ++i;
  if (i < kKinds) {
    if (i == open_.kinds) {
      open_.kind[open_.kinds++] = &cost;
      open_.count[i] = 0;
    }
    ++open_.count[i];
  }
  AddTo<uint64_t>(issued_, 1);
  AddTo<Ticks>(outstanding_cost_, predicted);
  AddTo<uint32_t>(outstanding_launches_, 1);
  expected_done_.store(std::max(expected_done(), now) + predicted, std::memory_order_relaxed);
  return predicted;
}

// When a marker has been put meanwhile, it stands for this launch too: nothing is left to undo.
void StreamTrack::TakeBack(Cost& cost, Ticks predicted) {
  if (open_.launches == 0) return;
  --open_.launches;
  open_.cost -= std::min(open_.cost, predicted);
  for (uint32_t i = 0; i < open_.kinds; ++i) {
    if (open_.kind[i] == &cost && open_.count[i] > 0) --open_.count[i];
  }
  SubtractFrom(outstanding_cost_, predicted);
  SubtractFrom(outstanding_launches_, 1U);
}

bool StreamTrack::WantsMarker() const {
  if (open_.launches == 0) return false;
  return open_.cost >= pace_->per_marker || open_.launches >= Pace::kLaunchesPerMarker;
}

uint64_t StreamTrack::NextMarker() {
  if (marker_ == nullptr || put_ - seen_ >= kRing - 1) return 0;
  return put_ + 1;
}

void StreamTrack::OnMarkerPut(Ticks) {
  ring_[++put_ % kRing] = open_;
  open_ = Batch{};
}

void StreamTrack::LearnFrom(const Batch& batch, Ticks predicted, Ticks elapsed, Evidence evidence) {
  if (predicted == 0 || batch.launches == 0) return;
  const double stretch = static_cast<double>(elapsed) / static_cast<double>(predicted);
  for (uint32_t i = 0; i < batch.kinds; ++i) {
    Cost& cost = *batch.kind[i];
    const Ticks old = cost.known.load(std::memory_order_relaxed)
                          ? cost.ticks.load(std::memory_order_relaxed)
                          : pace_->unknown;
    const double each = static_cast<double>(std::max<Ticks>(old, 1)) * stretch;
    costs_->Learn(cost, static_cast<Ticks>(each) + 1, evidence);
  }
}

// The newest batch speaks for all: a function in several of them must not be stretched twice.
void StreamTrack::LearnFromMarkers(uint64_t newest, Ticks predicted, Ticks elapsed,
                                   Evidence evidence) {
  if (newest > seen_) LearnFrom(ring_[newest % kRing], predicted, elapsed, evidence);
}

void StreamTrack::Finish(const Batch& batch) {
  SubtractFrom(outstanding_cost_, batch.cost);
  SubtractFrom(outstanding_launches_, batch.launches);
}

// Anew from what was seen last: errors of the predictions must not add up while the stream stays
// busy. The next marker is not passed before `not_before`.
void StreamTrack::ExpectFrom(Ticks not_before) {
  Ticks done = busy_since_;
  for (uint64_t m = seen_ + 1; m <= put_; ++m) {
    done = std::max(done, ring_[m % kRing].first) + ring_[m % kRing].cost;
    if (m == seen_ + 1) done = std::max(done, not_before);
  }
  if (open_.launches != 0) done = std::max(done, open_.first) + open_.cost;
  expected_done_.store(done, std::memory_order_relaxed);
}

bool StreamTrack::Observe(Ticks now) {
  if (marker_ == nullptr || put_ == seen_) return false;
  const uint64_t value = marker_->load(std::memory_order_acquire);
  if (value > put_) return false;
  const Ticks looked_before = looked_at_;
  looked_at_ = now;
  if (value <= seen_) {
    ExpectFrom(now);
    return false;
  }
  Ticks predicted = 0;
  for (uint64_t m = seen_ + 1; m <= value; ++m) predicted += ring_[m % kRing].cost;
  const Ticks since = std::max(busy_since_, ring_[(seen_ + 1) % kRing].first);
  const Ticks elapsed = now > since ? now - since : 1;
  const Ticks unseen = std::min(elapsed, now - std::min(now, looked_before)) / 2;
  const bool exact = unseen + uncertainty_ <= elapsed / kExactPart;
  if (exact) {
    LearnFromMarkers(value, predicted, elapsed - unseen, Evidence::kExact);
  } else {
    LearnFromMarkers(value, predicted, elapsed + uncertainty_, Evidence::kUpperBound);
  }
  for (uint64_t m = seen_ + 1; m <= value; ++m) Finish(ring_[m % kRing]);
  seen_ = value;
  busy_since_ = now - unseen;
  uncertainty_ = unseen;
  last_progress_.store(now, std::memory_order_relaxed);
  ExpectFrom(now);
  return true;
}

uint64_t StreamTrack::BeginSynchronize() {
  ++synchronizing_;
  return issued();
}

void StreamTrack::EndSynchronize(uint64_t issued_before, Ticks now, bool certain) {
  if (synchronizing_ > 0) --synchronizing_;
  Observe(now);
  if (!certain || issued() != issued_before || outstanding_launches() == 0) return;
  FinishAll(now);
}

void StreamTrack::FinishAll(Ticks now) {
  const Ticks predicted = outstanding_cost();
  Ticks since = busy_since_;
  if (put_ == seen_) since = std::max(since, open_.first);
  const Ticks elapsed = now > since ? now - since : 1;
  const Evidence evidence = elapsed >= pace_->exact_from ? Evidence::kExact : Evidence::kUpperBound;
  if (open_.launches != 0) {
    LearnFrom(open_, predicted, elapsed, evidence);
  } else {
    LearnFromMarkers(put_, predicted, elapsed, evidence);
  }
  Abandon();
  last_progress_.store(now, std::memory_order_relaxed);
  expected_done_.store(now, std::memory_order_relaxed);
}

bool StreamTrack::Finished(Ticks now) {
  Observe(now);
  if (outstanding_launches() == 0) return true;
  if (put_ != seen_ || synchronizing_ != 0) return false;
  // When the last launch was issued is not known: not later than this look.
  if (tail_issued_ != issued()) {
    tail_issued_ = issued();
    tail_done_ = now + open_.cost + open_.cost / 4 + pace_->tail_slack;
  }
  if (now < tail_done_) return false;
  Abandon();
  return true;
}

void StreamTrack::Abandon() {
  seen_ = put_;
  open_ = Batch{};
  outstanding_cost_.store(0, std::memory_order_relaxed);
  outstanding_launches_.store(0, std::memory_order_relaxed);
}

}  // namespace krux::limiter
