// The simulated node: opens or makes the shared file, hands out seats on cards, and keeps the rule
// that no card ever gives more memory than it has.
//
// Who calls it: libcuda (seats, memory), libnvidia-ml and krux-sim (reading, faults). Thread-safe.
// A process that dies at any instruction harms nobody: the kernel drops its lock on the seat's
// byte, and ReleaseDead, called by whoever looks next, zeroes the seat. A forked child keeps the
// descriptor and with it the seat, as it keeps a real driver's memory.
//
// The descriptor is never closed: the kernel drops a process's record locks when it closes any
// descriptor of the file.
#ifndef KRUX_SIM_STATE_STATE_H_
#define KRUX_SIM_STATE_STATE_H_

#include <sys/types.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/fd.h"
#include "common/result.h"
#include "sim/state/layout.h"
#include "sim/state/profile.h"

namespace krux::sim {

// $KRUX_SIM_FOLDER, else /run/krux-sim.
std::string SimFolder();

// Makes the node's state file in `folder` (which is made too). kAlreadyExists if there is one.
Status CreateState(const std::string& folder, const NodeOptions& options);

struct ProcessUse {
  pid_t pid = 0;  // in the caller's pid namespace; 0: not to be seen from there
  uint64_t used_bytes = 0;
  uint32_t seat = 0;
  bool is_orphan = false;  // the process has died; children that it forked hold the memory
};

class SharedState {
 public:
  // Opens the node of `folder`; makes a default one (one H200) where there is none.
  static Result<SharedState*> Open(const std::string& folder);

  const State& data() const { return *state_; }
  Card& card(uint32_t index) { return state_->cards[index]; }
  Fault& fault(uint32_t index) { return state_->faults[index]; }
  // Writes anew how many faults are armed.
  void CountArmedFaults();
  // What happened to a card, for those who watch its events (NVML) and for krux-sim.
  void ReportXid(uint32_t card, uint32_t xid);
  // The card loses what was on it: contexts of before are dead, and wait no longer. `is_lost`: it
  // is away until this is called with false.
  void LoseCard(uint32_t card, bool is_lost);
  // As `nvidia-smi --gpu-reset`: contexts of before are dead, volatile error counts are 0.
  void ResetCard(uint32_t card);
  // Errors of the memory. An uncorrected one is XID 48, kills the contexts and wants a reset.
  void AddEccErrors(uint32_t card, uint64_t corrected, uint64_t uncorrected);
  // The time of the node: CLOCK_MONOTONIC, or the virtual time that is set.
  Nanos Now() const {
    const uint64_t set = state_->virtual_ns.load(std::memory_order_relaxed);
    constexpr uint64_t kMost = uint64_t{1} << 55;  // whatever others may have written
    return set == 0 ? MonotonicNow() : static_cast<Nanos>(std::min(set, kMost));
  }
  bool has_virtual_time() const { return state_->virtual_ns.load() != 0; }
  // Moves virtual time on (its first use starts it) and wakes all who wait for the node's clock;
  // returns when what was due until then has happened in every living process. Time moves one way.
  // kFailedPrecondition: work is in the node's real time, from which there is no way back.
  // kUnavailable: a process has not followed within ten seconds.
  Status AdvanceVirtualTime(Nanos by);
  // The same without waking and waiting, for engines without threads.
  void SetVirtualTime(Nanos time) { state_->virtual_ns.store(static_cast<uint64_t>(time)); }
  // Cards that this process may use: those whose file card<N> it can open, as with device nodes.
  const std::vector<uint32_t>& visible_cards() const { return visible_; }

  // A seat for this process on a card, held until the process and its forked children are gone.
  // kResourceExhausted: all 64 are taken by living processes.
  Result<uint32_t> ClaimSeat(uint32_t card);

  // Takes `bytes` for a seat of this process if the card has them; all or nothing.
  bool TakeMemory(uint32_t card, uint32_t seat, uint64_t bytes);
  // The same for memory that no process's figure shows.
  bool TakeUnlisted(uint32_t card, uint32_t seat, uint64_t bytes);
  void ReturnMemory(uint32_t card, uint32_t seat, uint64_t bytes);
  void ReturnUnlisted(uint32_t card, uint32_t seat, uint64_t bytes);

  uint64_t UsedMemory(uint32_t card);  // all processes, what is in no figure, and strangers
  uint64_t FreeMemory(uint32_t card);

  // Frees seats whose processes are gone; returns how many.
  int ReleaseDead(uint32_t card);
  // True while a process (or its forked children) holds the seat.
  bool IsHeld(uint32_t card, uint32_t seat) const;

  // Processes that hold memory on the card.
  std::vector<ProcessUse> Processes(uint32_t card);

 private:
  SharedState(UniqueFd fd, State* state, std::string folder);

  bool Take(uint32_t card, uint32_t seat, uint64_t bytes, std::atomic<uint64_t> Seat::* account);
  bool TakeOrRelease(uint32_t card, uint32_t seat, uint64_t bytes,
                     std::atomic<uint64_t> Seat::* account);
  bool HasSettled(uint32_t card, uint32_t seat, Nanos time) const;
  bool LockSeat(uint32_t card, uint32_t seat);
  void ClearSeat(uint32_t card, uint32_t seat);
  // The pid that holds the seat's record lock; 0: none, -1: one outside our pid namespace.
  pid_t LockedPid(uint32_t card, uint32_t seat) const;
  pid_t PidOf(uint32_t card, uint32_t index, bool* is_orphan);

  UniqueFd fd_;
  State* state_;
  std::string folder_;
  std::vector<uint32_t> visible_;
  uint32_t pid_namespace_ = 0;
  std::atomic<uint64_t> owned_[kMaxCards] = {};  // bit i: seat i of the card is this process's
  std::mutex mutex_;  // guards the pending_bytes of this process's seats, and claiming
};

}  // namespace krux::sim

#endif  // KRUX_SIM_STATE_STATE_H_
