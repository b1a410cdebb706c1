#include "sim/cuda/graph_memory.h"

#include <algorithm>
#include <map>

#include "sim/cuda/memory.h"

namespace krux::sim {
namespace {

struct Block {
  Device* device = nullptr;
  uint64_t bytes = 0;
  bool is_backed = false;     // the card pays
  bool is_allocated = false;  // after the launches so far
  bool is_forgotten = false;  // the node is gone
};

// Never destroyed: programs call in until they have ended.
std::mutex g_mutex;  // guards both
std::map<CUdeviceptr, Block>& g_blocks = *new std::map<CUdeviceptr, Block>;
std::map<Device*, GraphMemoryUse>& g_use = *new std::map<Device*, GraphMemoryUse>;

// REQUIRES, for these: g_mutex held.
bool Back(Block* block) {
  if (block->is_backed) return true;
  if (!block->device->memory().Charge(block->bytes)) return false;
  block->is_backed = true;
  GraphMemoryUse& use = g_use[block->device];
  use.reserved += block->bytes;
  use.reserved_high = std::max(use.reserved_high, use.reserved);
  return true;
}

void SetAllocated(Block* block, bool is_allocated) {
  if (block->is_allocated == is_allocated) return;
  block->is_allocated = is_allocated;
  GraphMemoryUse& use = g_use[block->device];
  use.used = is_allocated ? use.used + block->bytes : use.used - block->bytes;
  use.used_high = std::max(use.used_high, use.used);
}

void GiveBack(CUdeviceptr address, Block* block) {
  if (!block->is_backed) return;
  block->is_backed = false;
  g_use[block->device].reserved -= block->bytes;
  block->device->memory().Discard(address, block->bytes);
  block->device->memory().Refund(block->bytes);
}

void EraseIfUnused(std::map<CUdeviceptr, Block>::iterator found) {
  Block& block = found->second;
  if (!block.is_forgotten || block.is_allocated) return;
  GiveBack(found->first, &block);
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
  for (const CUdeviceptr address : allocated) SetAllocated(&g_blocks[address], true);
  for (const CUdeviceptr address : freed) {
    const auto found = g_blocks.find(address);
    if (found != g_blocks.end()) SetAllocated(&found->second, false);
  }
  return CUDA_SUCCESS;
}

bool FreeGraphBlock(CUdeviceptr address) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto found = g_blocks.find(address);
  if (found == g_blocks.end() || !found->second.is_allocated) return false;
  SetAllocated(&found->second, false);
  EraseIfUnused(found);
  return true;
}

GraphMemoryUse GraphMemoryOf(Device* device) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  return g_use[device];
}

void ResetGraphMemoryHigh(Device* device, bool of_used) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  GraphMemoryUse& use = g_use[device];
  if (of_used) {
    use.used_high = use.used;
  } else {
    use.reserved_high = use.reserved;
  }
}

void TrimGraphMemory(Device* device) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (auto& [address, block] : g_blocks) {
    if (block.device == device && !block.is_allocated) GiveBack(address, &block);
  }
}

}  // namespace krux::sim
