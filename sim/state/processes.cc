// Which processes hold a card's memory, with pids as the reader's pid namespace sees them.
#include <fcntl.h>
#include <unistd.h>

#include "sim/state/state.h"

namespace krux::sim {

// The kernel translates the owner of a record lock into the caller's pid namespace. It says nothing
// about locks of the caller's own process, and the lock ends with its process while forked children
// may hold the seat on: then the pid is what the owner, or a reader of this namespace, wrote down.
pid_t SharedState::PidOf(uint32_t card, uint32_t index, bool* is_orphan) {
  Seat& seat = state_->cards[card].seats[index];
  *is_orphan = false;
  const pid_t locked = LockedPid(card, index);
  if (locked > 0) {
    seat.seen_pid.store((uint64_t{pid_namespace_} << 32) | static_cast<uint32_t>(locked));
    return locked;
  }
  const uint64_t own = seat.own_pid.load();
  const bool is_mine = own == ((uint64_t{pid_namespace_} << 32) | static_cast<uint32_t>(getpid()));
  if (is_mine) return getpid();
  if (locked < 0) return 0;  // alive, in a namespace that is not ours to see
  *is_orphan = true;
  for (const uint64_t known : {own, seat.seen_pid.load()}) {
    if (known >> 32 == pid_namespace_) return static_cast<pid_t>(known & 0xffffffff);
  }
  return 0;
}

std::vector<ProcessUse> SharedState::Processes(uint32_t card) {
  ReleaseDead(card);
  std::vector<ProcessUse> result;
  for (uint32_t i = 0; i < kSeatsPerCard; ++i) {
    const uint64_t used = state_->cards[card].seats[i].used_bytes.load();
    if (used == 0) continue;
    ProcessUse use;
    use.seat = i;
    use.used_bytes = used;
    use.pid = PidOf(card, i, &use.is_orphan);
    result.push_back(use);
  }
  return result;
}

}  // namespace krux::sim
