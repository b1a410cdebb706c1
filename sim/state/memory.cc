// Memory of a card, without a lock that a dying or stopped process could hold: a process writes
// what it wants into its own seat, then adds up everybody's. Of two that ask at the same time at
// least one sees the other, so together they never get more than the card has.
#include <algorithm>
#include <chrono>
#include <thread>

#include "sim/state/state.h"

namespace krux::sim {
namespace {

struct Totals {
  uint64_t granted = 0;
  uint64_t pending = 0;
};

// A card does not give its last memory: an H200 that was filled with blocks down to 2 MiB kept 3
// MiB.
constexpr uint64_t kKept = 2 << 20;

Totals AddUp(Card& card) {
  Totals totals;
  totals.granted = card.stranger_bytes.load();
  for (Seat& seat : card.seats) {
    // Pending first: a grant that is just being moved counts twice rather than not at all.
    totals.pending += seat.pending_bytes.load();
    totals.granted += seat.used_bytes.load() + seat.unlisted_bytes.load();
  }
  return totals;
}

}  // namespace

bool SharedState::Take(uint32_t card_index, uint32_t seat_index, uint64_t bytes,
                       std::atomic<uint64_t> Seat::* account) {
  const std::lock_guard<std::mutex> guard(mutex_);
  Card& card = state_->cards[card_index];
  Seat& seat = card.seats[seat_index];
  if (card.usable_bytes() < kKept || bytes > card.usable_bytes() - kKept) return false;
  const uint64_t most = card.usable_bytes() - kKept;
  constexpr int kTries = 200;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    seat.pending_bytes.store(bytes);
    const Totals totals = AddUp(card);
    if (totals.granted + totals.pending <= most) {
      (seat.*account).fetch_add(bytes);
      seat.pending_bytes.store(0);
      return true;
    }
    seat.pending_bytes.store(0);
    if (totals.granted + bytes > most) return false;
    // Another asks at this moment; the lower seat tries again sooner.
    std::this_thread::sleep_for(std::chrono::microseconds(1 + seat_index * (attempt + 1)));
  }
  return false;
}

// A card that looks full may be full of what dead processes held. Others may be releasing that at
// this moment, so what counts is the next try and not what our own look found.
bool SharedState::TakeOrRelease(uint32_t card, uint32_t seat, uint64_t bytes,
                                std::atomic<uint64_t> Seat::* account) {
  if (Take(card, seat, bytes, account)) return true;
  for (int look = 0; look < 3; ++look) {
    ReleaseDead(card);
    if (Take(card, seat, bytes, account)) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

bool SharedState::TakeMemory(uint32_t card, uint32_t seat, uint64_t bytes) {
  return TakeOrRelease(card, seat, bytes, &Seat::used_bytes);
}

bool SharedState::TakeUnlisted(uint32_t card, uint32_t seat, uint64_t bytes) {
  return TakeOrRelease(card, seat, bytes, &Seat::unlisted_bytes);
}

void SharedState::ReturnMemory(uint32_t card, uint32_t seat, uint64_t bytes) {
  state_->cards[card].seats[seat].used_bytes.fetch_sub(bytes);
}

void SharedState::ReturnUnlisted(uint32_t card, uint32_t seat, uint64_t bytes) {
  state_->cards[card].seats[seat].unlisted_bytes.fetch_sub(bytes);
}

uint64_t SharedState::UsedMemory(uint32_t card) {
  ReleaseDead(card);
  return std::min(AddUp(state_->cards[card]).granted, state_->cards[card].usable_bytes());
}

uint64_t SharedState::FreeMemory(uint32_t card) {
  return state_->cards[card].usable_bytes() - UsedMemory(card);
}

}  // namespace krux::sim
