// The simulated node as bytes: what lies in the file `state` of the sim folder, mapped shared by
// every process that uses a simulated card (libcuda.so.1, libnvidia-ml.so.1, krux-sim), also across
// containers, users and pid namespaces.
//
// A process may die at any instruction. So there is no lock in here: a seat belongs to the process
// that holds the kernel's lock on the seat's byte (state.h); each fact is one atomic store; what a
// dead process held is zeroed by whoever looks next.
//
// The file is complete before it gets its name, and its size and identity never change after.
#ifndef KRUX_SIM_STATE_LAYOUT_H_
#define KRUX_SIM_STATE_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sim/state/turns.h"

namespace krux::sim {

constexpr uint64_t kStateMagic = 0x334d495358554b52;  // "RKUXSIM3", little endian
constexpr uint32_t kMaxCards = 16;
constexpr uint32_t kMaxKernelCosts = 64;

// What a kernel costs, by name. Cost = base_ns + parameter * picoseconds_per_unit / 1000.
struct KernelCost {
  char name[64];  // as written in the source; matches the mangled name too
  uint64_t base_ns;
  uint64_t picoseconds_per_unit;  // 0: no parameter counts
  uint32_t parameter;             // index of the parameter that counts units
  uint32_t unused;
};

// One process on one card. Written by its owner, except where said.
struct alignas(128) Seat {
  std::atomic<uint64_t> used_bytes;     // granted memory, as NVML attributes it to the process
  std::atomic<uint64_t> pending_bytes;  // asked for now: counts against others until it is decided
  std::atomic<uint64_t>
      managed_bytes;              // resident managed memory: on the card, in no process figure
  std::atomic<uint64_t> busy_ns;  // time with a kernel on the card, since the seat was taken
  std::atomic<uint64_t> window_start_ns;  // utilisation: start of the current window (monotonic)
  std::atomic<uint64_t> window_busy_ns;   // busy_ns at that start
  std::atomic<uint32_t> percent;          // busy share of the last whole window
  std::atomic<uint32_t> wake;             // futex of the owner's executor; others bump it too
  std::atomic<uint64_t> own_pid;          // PidInNamespace of the owner, as it sees itself
  std::atomic<uint64_t> seen_pid;         // the same as a reader last saw it; written by readers
  std::atomic<uint64_t> demand;           // until when it has work on the card (share.h)
  std::atomic<uint64_t> settled_ns;       // virtual time up to which all that was due has happened
};
static_assert(sizeof(Seat) == 128);

// Whose turn it is on the card (turns.h), as share.h writes it; never written while it is the head.
struct alignas(64) TurnsNode {
  std::atomic<uint64_t> clock;
  std::atomic<uint64_t> busy;
  std::atomic<uint64_t> owner;  // low byte: seat + 1, 0: nobody; bit 8: its context is being loaded
  std::atomic<uint64_t> phase_end;
  std::atomic<uint64_t> served[kSeatsPerCard];
  std::atomic<uint64_t> ran_until[kSeatsPerCard];
  std::atomic<uint64_t> demand[kSeatsPerCard];
};

struct Card {
  char name[96];
  unsigned char uuid[16];
  uint64_t memory_bytes;
  uint32_t multiprocessors;
  uint32_t compute_major;
  uint32_t compute_minor;
  uint32_t pci_bus;
  uint32_t threads_per_multiprocessor;
  uint32_t unused;
  uint64_t context_bytes;     // memory cost of a context
  int64_t slice_ns;           // TurnRules
  int64_t drain_switch_ns;    //
  int64_t preempt_switch_ns;  //
  int64_t launch_ns;          // a kernel that finds its stream empty starts that much later
  std::atomic<uint64_t> stranger_bytes;  // memory taken outside of CUDA (krux-sim take)
  std::atomic<uint32_t> lost;            // 1: fell off the bus (krux-sim lose)
  uint32_t unused2;
  std::atomic<uint64_t> head;          // which node holds the present turns (share.h)
  TurnsNode nodes[kSeatsPerCard * 2];  // two of each seat
  Seat seats[kSeatsPerCard];
};

struct State {
  uint64_t magic;
  uint64_t size;
  uint32_t card_count;
  uint32_t driver_version;  // as cuDriverGetVersion says it
  uint32_t kernel_cost_count;
  uint32_t unused;
  char driver_name[32];  // as NVML says it, "580.95.05"
  // 0: work takes real time (CLOCK_MONOTONIC). Else what the clock shows to everybody; it is moved
  // on by SharedState::AdvanceVirtualTime alone.
  std::atomic<uint64_t> virtual_ns;
  KernelCost kernel_costs[kMaxKernelCosts];
  Card cards[kMaxCards];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace krux::sim

#endif  // KRUX_SIM_STATE_LAYOUT_H_
