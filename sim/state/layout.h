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

constexpr uint64_t kStateMagic = 0x354d495358554b52;  // "RKUXSIM5", little endian
constexpr uint32_t kMaxCards = 16;
constexpr uint32_t kMaxKernelCosts = 64;
constexpr uint32_t kXidLog = 64;
constexpr uint32_t kMaxFaults = 16;

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
  // On the card, in no process's figure: managed memory, and what the driver keeps for itself.
  std::atomic<uint64_t> unlisted_bytes;
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

// What a model of card is, beside memory and multiprocessors; never changes (profile.cc).
struct CardFacts {
  char key[16];          // "H200"
  char part_number[24];  //
  char vbios[24];
  uint32_t pci_device_id;  // as NVML writes it: device in the high half, vendor in the low one
  uint32_t pci_subsystem_id;
  uint32_t brand;         // nvmlBrandType_t
  uint32_t architecture;  // NVML_DEVICE_ARCH_*
  uint32_t cores_per_multiprocessor;
  uint32_t power_limit_w, power_least_w, power_idle_w;
  uint32_t graphics_mhz, memory_mhz, video_mhz, idle_mhz;
  uint32_t pcie_generation;
  uint32_t nvlinks, nvlink_version;  // 0: none
  uint32_t bus_width_bits;
  uint32_t l2_bytes, persisting_l2_bytes;
  uint32_t shared_bytes, shared_optin_bytes;  // of a multiprocessor, of a block
  uint32_t blocks_per_multiprocessor;
  uint32_t single_to_double;  // how much faster single precision is
  uint32_t copy_engines;
  uint32_t mig_slices;  // 0: no MIG
  uint32_t slowdown_celsius, shutdown_celsius;
};

// What krux-sim does to a card; counters only grow until a reset.
struct CardHealth {
  std::atomic<uint32_t> lost;         // 1: fell off the bus
  std::atomic<uint32_t> needs_reset;  // 1: no new context until it is reset
  std::atomic<uint64_t> epoch;  // number of losses and resets: contexts of earlier ones are dead
  std::atomic<uint64_t> xids;   // number of XIDs so far; the last ones are in xid_log
  std::atomic<uint64_t> xid_log[kXidLog];
  std::atomic<uint64_t> ecc_corrected, ecc_uncorrected;                      // since the last reset
  std::atomic<uint64_t> ecc_corrected_aggregate, ecc_uncorrected_aggregate;  // ever
};

struct Card {
  // What programs can have.
  uint64_t usable_bytes() const { return memory_bytes - reserved_bytes; }

  char name[96];
  unsigned char uuid[16];
  uint64_t memory_bytes;    // all of it, as NVML says it
  uint64_t reserved_bytes;  // what the driver keeps; CUDA counts without it
  uint32_t multiprocessors;
  uint32_t compute_major;
  uint32_t compute_minor;
  uint32_t pci_bus;
  uint32_t threads_per_multiprocessor;
  uint32_t unused;
  uint64_t context_bytes;           // memory cost of a context
  uint64_t context_unlisted_bytes;  // what it costs beside that, in no process's figure
  uint64_t process_unlisted_bytes;  // the same of cuInit
  int64_t slice_ns;                 // TurnRules
  int64_t drain_switch_ns;          //
  int64_t preempt_switch_ns;        //
  int64_t launch_ns;                // a kernel that finds its stream empty starts that much later
  std::atomic<uint64_t> stranger_bytes;  // memory taken outside of CUDA (krux-sim take)
  CardFacts facts;
  CardHealth health;
  uint32_t numa_node;
  uint32_t unused2;
  std::atomic<uint64_t> head;          // which node holds the present turns (share.h)
  TurnsNode nodes[kSeatsPerCard * 2];  // two of each seat
  Seat seats[kSeatsPerCard];
};

// What calls are made to do (fault.h). `armed` is stored last and cleared first.
struct Fault {
  std::atomic<uint32_t> armed;
  std::atomic<uint32_t> action;     // FaultAction
  std::atomic<uint64_t> name[8];    // of the call, without version; "*": every call
  std::atomic<uint64_t> countdown;  // the fault hits when it goes from 1 to 0
  std::atomic<uint64_t> times;      // how many calls in a row it hits then
  std::atomic<uint64_t> value;      // the code to return, the nanoseconds to sleep
  std::atomic<uint64_t> pid;        // only of this process (as it sees itself); 0: of all
  std::atomic<uint64_t> hits;       // how often it has hit
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
  std::atomic<uint32_t> faults_armed;  // number of armed faults: calls look no further at 0
  uint32_t unused2;
  Fault faults[kMaxFaults];
  KernelCost kernel_costs[kMaxKernelCosts];
  Card cards[kMaxCards];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace krux::sim

#endif  // KRUX_SIM_STATE_LAYOUT_H_
