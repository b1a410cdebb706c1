#include <sys/mman.h>

#include <algorithm>

#include "sim/cuda/memory.h"

namespace krux::sim {

HostMemory& TheHostMemory() {
  static auto* memory = new HostMemory;
  return *memory;
}

namespace {

// mincore answers for mapped pages only.
bool IsMemory(CUdeviceptr address, uint64_t bytes) {
  constexpr uint64_t kPage = 4096;
  unsigned char ignored[512];
  for (uint64_t page = address / kPage * kPage; page < address + bytes;
       page += sizeof ignored * kPage) {
    const uint64_t left = std::min<uint64_t>(address + bytes - page, sizeof ignored * kPage);
    if (mincore(reinterpret_cast<void*>(page), left, ignored) != 0) return false;
  }
  return true;
}

}  // namespace

CUresult HostMemory::Allocate(Context* context, uint64_t bytes, MemoryKind kind, void** out,
                              unsigned flags) {
  constexpr uint64_t kPage = 4096;
  const uint64_t rounded = (bytes + kPage - 1) / kPage * kPage;
  if (rounded < bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  // Shared with forked children, as pinned and managed pages of the driver are.
  void* pointer = mmap(nullptr, rounded, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pointer == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard<std::mutex> lock(mutex_);
  Allocation& allocation = allocations_[reinterpret_cast<CUdeviceptr>(pointer)];
  allocation = Allocation{};
  allocation.flags = flags;
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
    device->state()->ReturnUnlisted(device->card_index(), device->seat(), allocation.charged);
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

CUresult HostMemory::Register(Context* context, void* pointer, uint64_t bytes, unsigned flags) {
  const auto address = reinterpret_cast<CUdeviceptr>(pointer);
  if (pointer == nullptr || bytes == 0 || address + bytes < address || !IsMemory(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Allocation overlapping;
  if (Find(address, &overlapping) || Find(address + bytes - 1, &overlapping)) {
    return overlapping.is_registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                     : CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& device : Devices()) {
    if (device->is_attached() && device->memory().Contains(address)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  Allocation& allocation = allocations_[address];
  allocation.address = address;
  allocation.bytes = bytes;
  allocation.kind = MemoryKind::kHost;
  allocation.context = context;
  allocation.device = context->device;
  allocation.is_registered = true;
  allocation.flags = flags;
  return CUDA_SUCCESS;
}

CUresult HostMemory::Unregister(void* pointer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<CUdeviceptr>(pointer));
  if (found == allocations_.end()) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if (!found->second.is_registered) return CUDA_ERROR_INVALID_VALUE;
  allocations_.erase(found);
  return CUDA_SUCCESS;
}

Allocation* HostMemory::FindLocked(CUdeviceptr address) {
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  Allocation& allocation = std::prev(after)->second;
  return address - allocation.address < allocation.bytes ? &allocation : nullptr;
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

bool HostMemory::TakeManaged(Device* device, uint64_t bytes) {
  constexpr uint64_t kStep = 128 << 20;
  uint64_t& spare = spare_[device];
  if (bytes > spare) {
    const uint64_t missing = bytes - spare;
    uint64_t taken = (missing + kStep - 1) / kStep * kStep;
    SharedState* state = device->state();
    if (!state->TakeUnlisted(device->card_index(), device->seat(), taken)) {
      // A card without room for a whole step gives what is needed.
      taken = missing;
      if (!state->TakeUnlisted(device->card_index(), device->seat(), taken)) return false;
    }
    spare += taken;
  }
  spare -= bytes;
  return true;
}

// The whole allocation moves; where the card has no room it stays on the host, as the real driver
// would move other pages out instead.
void HostMemory::TouchOnDevice(CUdeviceptr address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Allocation* found = FindLocked(address);
  if (found == nullptr || found->kind != MemoryKind::kManaged || found->charged > 0) return;
  Allocation& allocation = *found;
  Device* device = allocation.device;
  const uint64_t bytes = RoundToChunk(allocation.bytes);
  if (TakeManaged(device, bytes)) allocation.charged = bytes;
}

}  // namespace krux::sim
