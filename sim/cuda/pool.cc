#include "sim/cuda/pool.h"

#include <algorithm>
#include <map>

#include "sim/cuda/capture.h"
#include "sim/cuda/memory.h"

namespace krux::sim {
namespace {

constexpr uint64_t kStep = 32 << 20;

// Never destroyed: programs call in until they have ended.
std::mutex g_mutex;  // guards the three below
std::set<Pool*>& g_pools = *new std::set<Pool*>;
std::map<Device*, Pool*>& g_defaults = *new std::map<Device*, Pool*>;
std::map<Device*, Pool*>& g_current = *new std::map<Device*, Pool*>;
std::atomic<size_t> g_count{0};

uint64_t RoundTo(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

bool Pool::Take(uint64_t bytes) {
  const uint64_t needed = RoundTo(used + bytes, kStep);
  if (max_bytes != 0 && used + bytes > max_bytes) return false;
  if (needed > reserved) {
    if (device != nullptr && !device->memory().Charge(needed - reserved)) return false;
    reserved = needed;
    reserved_high = std::max(reserved_high, reserved);
  }
  used += bytes;
  used_high = std::max(used_high, used + forgotten);
  ++live;
  return true;
}

void Pool::Give(uint64_t bytes) {
  used -= bytes;
  --live;
}

void Pool::TrimTo(uint64_t keep) {
  const uint64_t target = std::max(RoundTo(used, kStep), RoundTo(std::min(keep, reserved), kStep));
  if (target >= reserved) return;
  if (device != nullptr) device->memory().Refund(reserved - target);
  reserved = target;
}

void RegisterPool(Pool* pool) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_pools.insert(pool);
  g_count.fetch_add(1);
}

void ForgetPool(Pool* pool) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_pools.erase(pool);
  g_count.fetch_sub(1);
  for (auto& [device, current] : g_current) {
    if (current == pool) current = g_defaults[device];
  }
}

Pool* DefaultPool(Device* device) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  Pool*& pool = g_defaults[device];
  if (pool == nullptr) {
    pool = Make<Pool>();
    pool->device = device;
    g_pools.insert(pool);
    g_count.fetch_add(1);
  }
  return pool;
}

Pool* CurrentPool(Device* device) {
  Pool* const by_default = DefaultPool(device);
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto found = g_current.find(device);
  return found == g_current.end() ? by_default : found->second;
}

void SetCurrentPool(Device* device, Pool* pool) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_current[device] = pool;
}

void TrimPools(Device* device) {
  if (g_count.load() == 0) return;
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (Pool* pool : g_pools) {
    if (pool->device != device) continue;
    const std::lock_guard<std::mutex> pool_lock(pool->mutex);
    pool->TrimTo(pool->release_threshold);
  }
}

// The addresses go at once; the bytes go back to the pool, and, when it was destroyed meanwhile and
// this was its last block, to the card.
CUresult FreePoolBlock(const Allocation& allocation) {
  Pool* pool = allocation.pool;
  const CUresult result = allocation.device->memory().Free(allocation.address);
  if (result != CUDA_SUCCESS) return result;
  const std::lock_guard<std::mutex> lock(pool->mutex);
  pool->Give(allocation.bytes);
  if (pool->is_doomed && pool->live == 0) {
    pool->TrimTo(0);
    Bury(pool);
  }
  return CUDA_SUCCESS;
}

CUresult ForgetPoolBlock(const Allocation& allocation) {
  {
    const std::lock_guard<std::mutex> lock(allocation.pool->mutex);
    allocation.pool->forgotten += allocation.bytes;
  }
  const CUresult result = FreePoolBlock(allocation);
  TrimPools(allocation.device);
  return result;
}

CUresult AllocateFromPool(Context* context, Pool* pool, uint64_t bytes, CUdeviceptr* out) {
  Device* device = pool->device != nullptr ? pool->device : context->device;
  {
    const std::lock_guard<std::mutex> lock(pool->mutex);
    if (!pool->Take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = device->memory().Reserve(nullptr, bytes, 1, MemoryKind::kPool, pool, out);
  if (result != CUDA_SUCCESS) {
    const std::lock_guard<std::mutex> lock(pool->mutex);
    pool->Give(bytes);
  }
  return result;
}

}  // namespace krux::sim
