#include "limiter/memory/pools.h"

#include "limiter/driver/driver.h"
#include "limiter/memory/sizes.h"

namespace krux::limiter {
namespace {

constexpr size_t kMostPools = 256;  // looked at in one sweep; more are settled by their own calls

uint64_t Attribute(CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  return Real().cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS ? value : 0;
}

uint64_t KeyOf(CUmemoryPool pool) { return reinterpret_cast<uint64_t>(pool); }

}  // namespace

bool Pools::Grow(Place place, uint64_t bytes) {
  return place.is_managed ? managed_->Grow(place.gpu, bytes) : account_->Charge(place.gpu, bytes);
}

bool Pools::BeforeAllocation(CUmemoryPool pool, Place place, uint64_t bytes, uint64_t* growth) {
  *growth = PoolGrowth(bytes);
  if (Grow(place, *growth)) return true;
  *growth = 0;
  const uint64_t reserved = Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  const uint64_t used = Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
  if (used <= reserved && reserved - used >= bytes && bytes != 0) return true;
  TrimAll(place.gpu);
  *growth = PoolGrowth(bytes);
  return Grow(place, *growth);
}

bool Pools::AfterAllocation(CUmemoryPool pool, uint32_t gpu, uint64_t growth) {
  return SettleOne(pool, gpu, growth);
}

// The most that it had, until it is destroyed.
bool Pools::SettleManagedLocked(Pool* row, uint64_t reserved, uint64_t ahead) {
  const uint64_t most = reserved > row->charged ? reserved : row->charged;
  const uint64_t noted = row->charged + ahead;
  if (most <= noted) {
    if (most < noted) managed_->Undo(row->place.gpu, noted - most);
    row->charged = most;
    return true;
  }
  const bool fits = managed_->Grow(row->place.gpu, most - noted);
  row->charged = fits ? most : noted;
  return fits;
}

// `ahead` bytes are charged beyond what the pool's row says.
bool Pools::SettleOne(CUmemoryPool pool, uint32_t gpu, uint64_t ahead) {
  const LockGuard guard(lock_);
  // Asked under the lock, so that two settlements can't be stored in the wrong order.
  const uint64_t reserved = Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  Pool* row = pools_.Insert(KeyOf(pool));
  if (row == nullptr) return account_->Settle(gpu, ahead, 0) && false;
  if (!row->known) *row = Pool{row->charged, {gpu, false}, true};
  if (row->place.is_managed) return SettleManagedLocked(row, reserved, ahead);
  const bool fits = account_->Settle(gpu, row->charged + ahead, reserved);
  if (fits) {
    row->charged = reserved;
  } else {
    row->charged += ahead;
  }
  return fits;
}

void Pools::OnCreate(CUmemoryPool pool, Place place) {
  const LockGuard guard(lock_);
  Pool* row = pools_.Insert(KeyOf(pool));
  if (row != nullptr && !row->known) *row = Pool{0, place, true};
}

Pools::Place Pools::PlaceOf(CUmemoryPool pool, uint32_t current) {
  const LockGuard guard(lock_);
  const Pool* row = pools_.Find(KeyOf(pool));
  return row == nullptr ? Place{current, false} : row->place;
}

void Pools::SettleAll() {
  shrinking_.store(false, std::memory_order_relaxed);
  uint64_t keys[kMostPools];
  uint32_t gpus[kMostPools];
  size_t count = 0;
  {
    const LockGuard guard(lock_);
    pools_.RemoveIf([&](uint64_t key, const Pool& pool) {
      if (pool.place.gpu != kOnHost && count < kMostPools) {
        keys[count] = key;
        gpus[count++] = pool.place.gpu;
      }
      return false;
    });
  }
  for (size_t i = 0; i < count; ++i) {
    static_cast<void>(SettleOne(reinterpret_cast<CUmemoryPool>(keys[i]), gpus[i], 0));
  }
}

bool Pools::TrimAll(uint32_t gpu) {
  uint64_t keys[kMostPools];
  size_t count = 0;
  {
    const LockGuard guard(lock_);
    pools_.RemoveIf([&](uint64_t key, const Pool& pool) {
      if (pool.place.gpu == gpu && pool.charged != 0 && count < kMostPools) keys[count++] = key;
      return false;
    });
  }
  for (size_t i = 0; i < count; ++i) {
    Real().cuMemPoolTrimTo(reinterpret_cast<CUmemoryPool>(keys[i]), 0);
    static_cast<void>(SettleOne(reinterpret_cast<CUmemoryPool>(keys[i]), gpu, 0));
  }
  return count != 0;
}

void Pools::OnDestroy(CUmemoryPool pool, bool had_memory) {
  const LockGuard guard(lock_);
  const Pool* row = pools_.Find(KeyOf(pool));
  if (row == nullptr) return;
  // A pool whose memory is in use lives on in the driver and can't be asked any more: its charge
  // stays until the process ends.
  if (!had_memory && row->place.is_managed) {
    managed_->Shrink(row->place.gpu, row->charged);
  } else if (!had_memory && row->place.gpu != kOnHost) {
    account_->Return(row->place.gpu, row->charged);
  }
  pools_.Remove(KeyOf(pool));
}

bool Pools::HasMemoryInUse(CUmemoryPool pool) {
  return Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) != 0;
}

void Pools::ForgetAfterFork() {
  lock_.Forget();
  pools_.Forget();
  shrinking_.store(false, std::memory_order_relaxed);
}

}  // namespace krux::limiter
