#include <sys/mman.h>

#include <cstdlib>

#include "sim/cuda/memory.h"

namespace krux::sim {

HostMemory& TheHostMemory() {
  static auto* memory = new HostMemory;
  return *memory;
}

CUresult HostMemory::Allocate(Context* context, uint64_t bytes, MemoryKind kind, void** out) {
  constexpr uint64_t kPage = 4096;
  const uint64_t rounded = (bytes + kPage - 1) / kPage * kPage;
  if (rounded < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  // Shared with forked children, as pinned and managed pages of the driver are.
  void* pointer = mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pointer == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard<std::mutex> lock(mutex_);
  Allocation& allocation = allocations_[reinterpret_cast<CUdeviceptr>(pointer)];
  allocation.address = reinterpret_cast<CUdeviceptr>(pointer);
  allocation.bytes = bytes;
  allocation.kind = kind;
  allocation.context = context;
  allocation.device = context->device;
  *out = pointer;
  return CUDA_SUCCESS;
}

void HostMemory::Release(const Allocation& allocation) {
  if (allocation.is_registered) return;
  munmap(reinterpret_cast<void*>(allocation.address), allocation.bytes);
  if (allocation.charged > 0) {
    Device* device = allocation.device;
    device->state()->ReturnManaged(device->card_index(), device->seat(), allocation.charged);
  }
}

CUresult HostMemory::Free(void* pointer, MemoryKind kind) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<CUdeviceptr>(pointer));
  if (found == allocations_.end() || found->second.kind != kind || found->second.is_registered) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Release(found->second);
  allocations_.erase(found);
  return CUDA_SUCCESS;
}

CUresult HostMemory::Register(Context* context, void* pointer, uint64_t bytes) {
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Allocation overlapping;
  if (Find(address, &overlapping) || Find(address + bytes - 1, &overlapping)) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  Allocation& allocation = allocations_[address];
  allocation.address = address;
  allocation.bytes = bytes;
  allocation.kind = MemoryKind::kHost;
  allocation.context = context;
  allocation.device = context->device;
  allocation.is_registered = true;
  return CUDA_SUCCESS;
}

CUresult HostMemory::Unregister(void* pointer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<CUdeviceptr>(pointer));
  if (found == allocations_.end() || !found->second.is_registered) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  allocations_.erase(found);
  return CUDA_SUCCESS;
}

bool HostMemory::Find(CUdeviceptr address, Allocation* out) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return false;
  const Allocation& allocation = std::prev(after)->second;
  if (address - allocation.address >= allocation.bytes) return false;
  *out = allocation;
  return true;
}

void HostMemory::FreeAllOf(Context* context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto next = allocations_.begin(); next != allocations_.end();) {
    if (next->second.context != context) {
      ++next;
      continue;
    }
    Release(next->second);
    next = allocations_.erase(next);
  }
}

// The whole allocation moves; where the card has no room it stays on the host, as the real driver
// would move other pages out instead.
void HostMemory::TouchOnDevice(CUdeviceptr address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return;
  Allocation& allocation = std::prev(after)->second;
  if (allocation.kind != MemoryKind::kManaged || allocation.charged > 0 ||
      address - allocation.address >= allocation.bytes) {
    return;
  }
  Device* device = allocation.device;
  const uint64_t bytes = RoundToChunk(allocation.bytes);
  if (device->state()->TakeManaged(device->card_index(), device->seat(), bytes)) {
    allocation.charged = bytes;
  }
}

}  // namespace krux::sim
