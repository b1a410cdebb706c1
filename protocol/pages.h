// The two shared pages of a container: what the agent says (limits) and what the container's
// processes report (account). Layouts are a contract between versions of the agent and of the
// limiter: fields are only added at reserved places, and version changes when a meaning changes.
//
//   limits   a file on the host's tmpfs, mounted read-only into the container. The agent writes,
//            limiters read. It outlives the agent; a restarted agent writes into it again.
//   account  a memfd made by the agent, its size sealed, passed to each limiter by SCM_RIGHTS.
//            Limiters and the agent write. It is a cache: a tenant can write garbage into it, so
//            the agent never admits, loops or indexes by what it reads there.
//
// Both are plain memory of lock-free atomics; nobody holds a lock, so nobody can die with one.
// Order: unless said otherwise loads are acquire and stores release.
#ifndef KRUX_PROTOCOL_PAGES_H_
#define KRUX_PROTOCOL_PAGES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace krux {

constexpr uint32_t kPageMagic = 0x5855524b;  // "KRUX"
constexpr uint32_t kLimitsVersion = 1;
constexpr uint32_t kAccountVersion = 1;
constexpr size_t kMaxPageGpus = 16;
constexpr size_t kMaxPageProcesses = 256;  // processes with CUDA in one container

// One GPU of the container, 256 bytes. All times are TSC ticks of the host.
//
// The lease. lease_word = (epoch << 1) | held. The agent raises epoch at every change, so a stale
// holder can never take a new lease for his own. It is a futex word: limiters wait on it
// (FUTEX_WAIT works on a read-only mapping), the agent wakes all.
struct alignas(64) GpuLimits {
  uint8_t uuid[16];                             // as CUDA gives it; constant
  std::atomic<uint64_t> memory_limit_bytes;     // everything included
  std::atomic<uint64_t> memory_physical_bytes;  // of the card
  std::atomic<uint32_t> cores_percent;          // 0 = no guarantee
  std::atomic<uint32_t> policy;                 // ComputePolicy
  std::atomic<uint32_t> priority;               // Priority
  std::atomic<uint32_t> context_mib;            // what a context takes under this driver: reserved
                                                // before one is made, settled by the agent after it
  std::atomic<uint32_t> used_percent;  // GPU time of the container in the last second, for people
  uint8_t reserved0[4];

  alignas(64) std::atomic<uint32_t> lease_word;
  std::atomic<uint32_t> in_flight_us;   // predicted work that a stream may have in flight; 0 = the
                                        // limiter's own bound
  std::atomic<uint64_t> lease_end_tsc;  // no launch begins after it; UINT64_MAX = open end

  // When the agent is gone: a launch may begin while (tsc - window_origin) % cycle lies in
  // [window_begin, window_begin + window_width). Windows of all tenants of a card are disjoint.
  // cycle 0: no window published, launches wait for the agent.
  alignas(64) std::atomic<uint64_t> window_cycle;
  std::atomic<uint64_t> window_origin;
  std::atomic<uint64_t> window_begin;
  std::atomic<uint64_t> window_width;
  // A lease will probably be given before this time: one waiting thread may watch the word until
  // then instead of sleeping, which saves the time that it takes to wake.
  std::atomic<uint64_t> soon_tsc;
  uint8_t reserved2[96 - 40];
};

struct LimitsPage {
  uint32_t magic;
  uint32_t version;
  uint32_t size_bytes;
  uint32_t gpu_count;
  std::atomic<uint64_t> tsc_per_second;
  std::atomic<uint32_t> sequence;  // odd while the agent rewrites several fields together
  uint32_t reserved0;
  // When the agent last looked after the leases, at least every 20 ms while a launch of the
  // container waits: a process that dies slowly keeps its connections open for a while. 0 = never
  // said.
  std::atomic<uint64_t> heartbeat_tsc;
  uint8_t reserved[64 - 40];
  GpuLimits gpus[kMaxPageGpus];
};

// Values of ProcessSlot::in_use.
constexpr uint32_t kSlotFree = 0;
constexpr uint32_t kSlotInUse = 1;  // from hello to clean-up
constexpr uint32_t kSlotDead = 2;   // its process died in the middle of a charge and counts no more

// One process of the container, claimed by the agent when it connects (limiter_messages.h names
// the index). Only this process writes here while it lives; the agent clears it after its end.
struct alignas(64) ProcessSlot {
  std::atomic<uint32_t> in_use;  // the agent's
  std::atomic<int32_t> pid;      // in the container's pid namespace, for people
  // When the work of the lease that ended last is expected to be done, in TSC ticks. A hint: it
  // says when to look, never what to believe.
  std::atomic<uint64_t> drain_tsc;
  uint64_t reserved0[6];
  struct PerGpu {
    std::atomic<uint64_t> charged_bytes;  // this process's part of used_bytes
    std::atomic<uint64_t> pending_bytes;  // a charge between the two words: see below
    std::atomic<uint64_t> context_bytes;  // part of charged_bytes that is contexts
    // The lease epoch under which this process may have work on the GPU; 0 = none. Set before the
    // lease word is read again (sequentially consistent both), cleared when drained. The agent
    // ends a lease by changing lease_word and then waits until no slot holds the old epoch.
    std::atomic<uint32_t> active_epoch;
    std::atomic<uint32_t> blocked;   // threads that wait at the gate
    std::atomic<uint64_t> launches;  // since the start, for people
    std::atomic<uint64_t> refused;   // allocations refused for the limit
    // Part of charged_bytes that the driver lists under no process (managed memory): never lowered
    // by what the driver says of the process.
    std::atomic<uint64_t> unlisted_bytes;
  } gpus[kMaxPageGpus];
};

// Charging n bytes on GPU g: pending = n; used_bytes CAS from u to u+n if u+n <= limit, else
// pending = 0 and refuse; charged += n; pending = 0. Returning: pending = n; charged -= n;
// used -= n; pending = 0. A process killed inside leaves pending != 0; the agent then sets used to
// the sum of charged over all slots, by a CAS that fails whenever a living process moved it.
struct AccountPage {
  uint32_t magic;
  uint32_t version;
  uint32_t size_bytes;
  uint32_t gpu_count;
  uint8_t reserved[48];
  struct alignas(64) PerGpu {
    std::atomic<uint64_t> used_bytes;
  } gpus[kMaxPageGpus];
  ProcessSlot processes[kMaxPageProcesses];
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(GpuLimits) == 256);
static_assert(offsetof(GpuLimits, lease_word) == 64);
static_assert(offsetof(GpuLimits, window_cycle) == 128);
static_assert(offsetof(LimitsPage, gpus) == 64);
static_assert(sizeof(LimitsPage) == 64 + 16 * 256);
static_assert(sizeof(ProcessSlot::PerGpu) == 56);
static_assert(sizeof(ProcessSlot) == 64 + 16 * 56);
static_assert(offsetof(AccountPage, gpus) == 64);
static_assert(offsetof(AccountPage, processes) == 64 + 16 * 64);

}  // namespace krux

#endif  // KRUX_PROTOCOL_PAGES_H_
