#include "sim/cuda/graph_memory.h"

#include <algorithm>
#include <map>

#include "sim/cuda/memory.h"

namespace krux::sim {
namespace {

constexpr uint64_t kStep = 32 << 20;

struct Block {
  Device* device = nullptr;
  uint64_t bytes = 0;
  bool is_backed = false;     // has a part of the pool
  bool is_allocated = false;  // after the launches so far
  bool is_forgotten = false;  // the node is gone
};

struct GraphPool {
  uint64_t backed = 0;  // bytes of all blocks that have a part of it
  GraphMemoryUse use;
};

// Never destroyed: programs call in until they have ended.
std::mutex g_mutex;  // guards both
std::map<CUdeviceptr, Block>& g_blocks = *new std::map<CUdeviceptr, Block>;
std::map<Device*, GraphPool>& g_pools = *new std::map<Device*, GraphPool>;

uint64_t StepsFor(uint64_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }

// REQUIRES, for these: g_mutex held.
bool Back(Block* block) {
  if (block->is_backed) return true;
  GraphPool& pool = g_pools[block->device];
  const uint64_t needed = StepsFor(pool.backed + block->bytes);
  GraphMemoryUse& use = pool.use;
  if (needed > use.reserved) {
    if (!block->device->memory().Charge(needed - use.reserved)) return false;
    use.reserved = needed;
    use.reserved_high = std::max(use.reserved_high, needed);
    use.used_high = std::max(use.used_high, needed);
  }
  pool.backed += block->bytes;
  block->is_backed = true;
  return true;
}

void TakeFrom(CUdeviceptr address, Block* block) {
  if (!block->is_backed) return;
  block->is_backed = false;
  g_pools[block->device].backed -= block->bytes;
  block->device->memory().Discard(address, block->bytes);
}

void EraseIfUnused(std::map<CUdeviceptr, Block>::iterator found) {
  Block& block = found->second;
  if (!block.is_forgotten || block.is_allocated) return;
  TakeFrom(found->first, &block);
  block.device->memory().Free(found->first);
  g_blocks.erase(found);
}

}  // namespace

CUresult ReserveGraphBlock(Device* device, uint64_t bytes, CUdeviceptr* address) {
  const CUresult result =
      device->memory().Reserve(nullptr, bytes, 1, MemoryKind::kGraph, nullptr, address);
  if (result != CUDA_SUCCESS) return result;
  const std::lock_guard<std::mutex> lock(g_mutex);
  Block& block = g_blocks[*address];
  block.device = device;
  block.bytes = RoundToChunk(bytes);
  return CUDA_SUCCESS;
}

void ForgetGraphBlock(CUdeviceptr address) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto found = g_blocks.find(address);
  if (found == g_blocks.end()) return;
  found->second.is_forgotten = true;
  EraseIfUnused(found);
}

CUresult LaunchGraphBlocks(const std::vector<CUdeviceptr>& allocated,
                           const std::vector<CUdeviceptr>& freed, bool frees_first) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (const CUdeviceptr address : allocated) {
    const auto found = g_blocks.find(address);
    if (found == g_blocks.end()) return CUDA_ERROR_INVALID_VALUE;
    if (found->second.is_allocated && !frees_first) return CUDA_ERROR_INVALID_VALUE;
    if (!Back(&found->second)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (const CUdeviceptr address : allocated) g_blocks[address].is_allocated = true;
  for (const CUdeviceptr address : freed) {
    const auto found = g_blocks.find(address);
    if (found != g_blocks.end()) found->second.is_allocated = false;
  }
  return CUDA_SUCCESS;
}

bool FreeGraphBlock(CUdeviceptr address) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto found = g_blocks.find(address);
  if (found == g_blocks.end() || !found->second.is_allocated) return false;
  found->second.is_allocated = false;
  EraseIfUnused(found);
  return true;
}

GraphMemoryUse GraphMemoryOf(Device* device) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  return g_pools[device].use;
}

void ResetGraphMemoryHigh(Device* device, bool of_used) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  GraphMemoryUse& use = g_pools[device].use;
  if (of_used) {
    use.used_high = use.reserved;
  } else {
    use.reserved_high = use.reserved;
  }
}

void TrimGraphMemory(Device* device) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (auto& [address, block] : g_blocks) {
    if (block.device == device && !block.is_allocated) TakeFrom(address, &block);
  }
  GraphPool& pool = g_pools[device];
  const uint64_t needed = StepsFor(pool.backed);
  if (needed >= pool.use.reserved) return;
  device->memory().Refund(pool.use.reserved - needed);
  pool.use.reserved = needed;
}

}  // namespace krux::sim
