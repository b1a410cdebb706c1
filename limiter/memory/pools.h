// Stream-ordered memory: each pool is charged by what it reserves on the card, not by what the
// program has of it. A pool grows in steps, so a call that may make it grow charges a step ahead
// and is settled to the driver's own figure (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) after it. A pool
// of managed memory holds what it once had on the card until it is destroyed, whatever it reserves
// (H200, driver 580), so it is charged by the most that it had.
//
// Thread-safe. Asks the driver for attributes under its lock; never waits for a stream.
#ifndef KRUX_LIMITER_MEMORY_POOLS_H_
#define KRUX_LIMITER_MEMORY_POOLS_H_

#include <atomic>
#include <cstdint>

#include "limiter/driver/cuda_api.h"
#include "limiter/life/lock.h"
#include "limiter/life/table.h"
#include "limiter/memory/account.h"
#include "limiter/memory/managed_memory.h"

namespace krux::limiter {

class Pools {
 public:
  constexpr Pools(Account* account, ManagedMemory* managed)
      : account_(account), managed_(managed) {}

  // kOnHost: the pool's memory is the host's or another process's, and not charged.
  static constexpr uint32_t kOnHost = UINT32_MAX;
  struct Place {
    uint32_t gpu;
    bool is_managed;
  };

  // Before an allocation of `bytes`: charges what the pool may grow by, trims all pools of the GPU
  // when that does not fit, and says in *growth what was charged (0 when the pool seems to have
  // room). False: out of memory.
  bool BeforeAllocation(CUmemoryPool pool, Place place, uint64_t bytes, uint64_t* growth);
  // After it, whether it succeeded or not: false when the pool grew by more than was charged and
  // that does not fit; the caller then frees the allocation.
  bool AfterAllocation(CUmemoryPool pool, uint32_t gpu, uint64_t growth);

  // A pool that the program has made or asked for. One that is known keeps its place.
  void OnCreate(CUmemoryPool pool, Place place);
  // Where the pool's memory is; on the GPU `current` for a pool that is not known.
  Place PlaceOf(CUmemoryPool pool, uint32_t current);

  // Memory was given back to some pool: what pools reserve may shrink at the next synchronize.
  void NoteFree() { shrinking_.store(true, std::memory_order_relaxed); }
  bool shrinking() const { return shrinking_.load(std::memory_order_relaxed); }
  // Settles every pool to the driver's figure.
  void SettleAll();
  // Gives unused memory of this GPU's pools back to the card, for an allocation that needs room.
  // False when there was none to give.
  bool TrimAll(uint32_t gpu);
  // The pool is destroyed; `had_memory`: some of its memory was in use just before (ask then).
  void OnDestroy(CUmemoryPool pool, bool had_memory);
  static bool HasMemoryInUse(CUmemoryPool pool);

  void ForgetAfterFork();

 private:
  struct Pool {
    uint64_t charged;
    Place place;
    bool known;
  };

  bool Grow(Place place, uint64_t bytes);
  bool SettleManagedLocked(Pool* row, uint64_t reserved, uint64_t ahead);
  bool SettleOne(CUmemoryPool pool, uint32_t gpu, uint64_t ahead);

  Account* account_;
  ManagedMemory* managed_;
  Lock lock_;
  Table<Pool> pools_;
  std::atomic<bool> shrinking_{false};
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_POOLS_H_
