// Virtual time of a node, and sleeping on a seat's word.
#include "sim/state/time.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <limits>
#include <thread>

#include "sim/state/state.h"

namespace krux::sim {

void SleepOnSeat(std::atomic<uint32_t>* word, uint32_t seen, Nanos until) {
  timespec deadline{};
  deadline.tv_sec = until / kSecond;
  deadline.tv_nsec = until % kSecond;
  const bool is_forever = until == std::numeric_limits<Nanos>::max();
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, is_forever ? nullptr : &deadline, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void WakeSeat(std::atomic<uint32_t>* word) {
  word->fetch_add(1);
  syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

bool SharedState::HasSettled(uint32_t card, uint32_t seat, Nanos time) const {
  const Seat& row = state_->cards[card].seats[seat];
  // A seat without an engine yet has nothing that could be due.
  if (row.own_pid.load() == 0 || row.settled_ns.load() == 0) return true;
  return static_cast<Nanos>(row.settled_ns.load()) >= time || !IsHeld(card, seat);
}

Status SharedState::AdvanceVirtualTime(Nanos by) {
  constexpr Nanos kFirst = kSecond;  // so that nothing is dated before the clock's start
  constexpr Nanos kMost = Nanos{1} << 54;
  const auto before = static_cast<Nanos>(state_->virtual_ns.load());
  if (by < 0 || by > kMost || before > kMost) {
    return Error{ErrorCode::kInvalidArgument, "virtual time moves on by 0 ns to 208 days"};
  }
  if (before == 0) {
    for (uint32_t card = 0; card < state_->card_count; ++card) {
      for (uint32_t seat = 0; seat < kSeatsPerCard; ++seat) {
        if (state_->cards[card].seats[seat].own_pid.load() == 0 || !IsHeld(card, seat)) continue;
        return Error{ErrorCode::kFailedPrecondition,
                     "programs use the node in real time: set virtual time before they start"};
      }
    }
  }
  const Nanos time = (before == 0 ? kFirst : before) + by;
  state_->virtual_ns.store(static_cast<uint64_t>(time));
  const Nanos give_up = MonotonicNow() + 10 * kSecond;
  for (uint32_t card = 0; card < state_->card_count; ++card) {
    for (Seat& seat : state_->cards[card].seats) WakeSeat(&seat.wake);
    for (uint32_t seat = 0; seat < kSeatsPerCard; ++seat) {
      while (!HasSettled(card, seat, time)) {
        if (MonotonicNow() > give_up) {
          return Error{ErrorCode::kUnavailable,
                       "a program on card " + std::to_string(card) +
                           " does not follow virtual time: is it stopped?"};
        }
        std::this_thread::yield();
      }
    }
  }
  return Ok();
}

}  // namespace krux::sim
