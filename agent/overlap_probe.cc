#include "agent/overlap_probe.h"

#include <algorithm>

namespace krux::agent {
namespace {

constexpr int kTriesThatAgree = 2;

uint64_t Delta(const OverlapProbe::Progress& from, OverlapProbe::TenantId id, uint64_t to) {
  const auto found = from.find(id);
  return found == from.end() || found->second > to ? 0 : to - found->second;
}

}  // namespace

void OverlapProbe::Arm(Nanos now) {
  if (state_ != State::kIdle) return;
  state_ = State::kPause;
  pause_ = options_.first_pause;
  agreeing_ = 0;
  next_look_ = now;
}

void OverlapProbe::Begin(State state, const Progress& progress, Nanos now) {
  state_ = state;
  start_ = progress;
  began_ = counted_since_ = now;
  settling_ = true;
  next_look_ = now + options_.settle;
}

OverlapProbe::Rates OverlapProbe::RatesSince(const Progress& progress, Nanos now,
                                             uint64_t* fewest) const {
  Rates rates;
  const double seconds = static_cast<double>(std::max<Nanos>(now - counted_since_, 1)) / kSecond;
  *fewest = UINT64_MAX;
  for (const auto& [id, total] : progress) {
    const uint64_t count = Delta(start_, id, total);
    if (count == 0) continue;
    *fewest = std::min(*fewest, count);
    rates[id] = static_cast<double>(count) / seconds;
  }
  return rates;
}

bool OverlapProbe::StopWatching() {
  state_ = State::kIdle;
  next_look_ = kNever;
  return false;
}

bool OverlapProbe::SayNo(Nanos now) {
  state_ = State::kPause;
  agreeing_ = 0;
  next_look_ = now + pause_;
  pause_ = std::min(2 * pause_, options_.longest_pause);
  return false;
}

bool OverlapProbe::EndTurns(const Progress& progress, Nanos now) {
  uint64_t fewest = 0;
  in_turns_ = RatesSince(progress, now, &fewest);
  if (in_turns_.size() < 2) return StopWatching();
  if (fewest < options_.least_count) {
    if (now - began_ >= options_.longest_span + options_.turns_span) return SayNo(now);
    next_look_ = now + options_.turns_span;
    return false;
  }
  Begin(State::kTrying, progress, now);
  return true;
}

OverlapProbe::Verdict OverlapProbe::Compare(const Rates& together) const {
  double sum = 0;
  for (const auto& [id, rate] : together) {
    if (!in_turns_.contains(id)) return Verdict::kUnclear;  // a newcomer
  }
  for (const auto& [id, before] : in_turns_) {
    const auto found = together.find(id);
    const double part = found == together.end() ? 0 : found->second / before;
    if (part < options_.nobody_below) return Verdict::kNo;
    sum += std::min(part, options_.most_each);
  }
  const double mean = sum / static_cast<double>(in_turns_.size());
  return mean >= options_.together_above ? Verdict::kYes : Verdict::kNo;
}

bool OverlapProbe::GoesBadly(const Rates& together) const {
  return std::any_of(in_turns_.begin(), in_turns_.end(), [&](const auto& entry) {
    const auto found = together.find(entry.first);
    return found == together.end() || found->second < options_.badly_below * entry.second;
  });
}

// All of them do less than when together was chosen: perhaps turns would lose less by that.
bool OverlapProbe::HasSunk(const Rates& together) const {
  double sum = 0;
  for (const auto& [id, before] : at_choice_) {
    const auto found = together.find(id);
    if (found != together.end()) sum += found->second / before;
  }
  return sum < options_.worse * static_cast<double>(at_choice_.size());
}

bool OverlapProbe::EndTry(const Progress& progress, Nanos now) {
  uint64_t fewest = 0;
  const Rates together = RatesSince(progress, now, &fewest);
  const bool counts = together.size() >= in_turns_.size() && fewest >= options_.least_count;
  const Nanos spent = now - counted_since_;
  if (counts && spent < options_.together_span && GoesBadly(together)) return SayNo(now);
  if (spent < options_.together_span || (!counts && spent < options_.longest_span)) {
    next_look_ = now + options_.glance;
    return true;
  }
  if (!counts || Compare(together) != Verdict::kYes) return SayNo(now);
  if (++agreeing_ < kTriesThatAgree) {
    Begin(State::kTurns, progress, now);
    return false;
  }
  at_choice_ = together;
  pause_ = options_.first_pause;
  recheck_at_ = now + options_.longest_pause;
  Begin(State::kTogether, progress, now);
  return true;
}

// Goes on while it would be chosen again.
bool OverlapProbe::Watch(const Progress& progress, Nanos now) {
  uint64_t fewest = 0;
  const Rates rates = RatesSince(progress, now, &fewest);
  if (rates.size() < 2) return StopWatching();
  const bool changed = rates.size() != at_choice_.size() || now >= recheck_at_ ||
                       Compare(rates) != Verdict::kYes || HasSunk(rates);
  if (changed) {
    agreeing_ = kTriesThatAgree - 1;  // it was right until now: one more yes is enough
    Begin(State::kTurns, progress, now);
    return false;
  }
  start_ = progress;
  counted_since_ = now;
  next_look_ = now + options_.watch;
  return true;
}

bool OverlapProbe::Look(const Progress& progress, bool allowed, Nanos now) {
  const bool together = state_ == State::kTrying || state_ == State::kTogether;
  if (now < next_look_ && allowed) return together;
  if (state_ == State::kIdle) return false;
  if (!allowed) return SayNo(now);
  if (settling_ && state_ != State::kPause) {
    settling_ = false;
    start_ = progress;
    counted_since_ = now;
    next_look_ = now + (state_ == State::kTurns    ? options_.turns_span
                        : state_ == State::kTrying ? options_.glance
                                                   : options_.watch);
    return together;
  }
  switch (state_) {
    case State::kPause:
      Begin(State::kTurns, progress, now);
      return false;
    case State::kTurns:
      return EndTurns(progress, now);
    case State::kTrying:
      return EndTry(progress, now);
    case State::kTogether:
      return Watch(progress, now);
    case State::kIdle:
      break;
  }
  return false;
}

}  // namespace krux::agent
