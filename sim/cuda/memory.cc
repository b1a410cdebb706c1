#include "sim/cuda/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "sim/cuda/shared_hold.h"
#include "sim/cuda/vmm.h"

namespace krux::sim {
namespace {

constexpr uint64_t kSpanBytes = uint64_t{1} << 39;  // addresses per card; twice that is mapped
constexpr uint64_t kLargestSmall = 1024 * 1024;
constexpr uint64_t kSmallestBlock = 512;
constexpr size_t kPageBytes = 4096;

uint64_t RoundTo(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Addresses that a reservation fills: blocks of pools lie close together.
uint64_t RangeOf(uint64_t bytes, MemoryKind kind) {
  return kind == MemoryKind::kPool ? RoundTo(bytes, kSmallestBlock) : RoundToChunk(bytes);
}

uint64_t MapRange(int protection) {
  void* range = mmap(nullptr, kSpanBytes + kChunkBytes, protection,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return 0;
  madvise(range, kSpanBytes, MADV_DONTDUMP);
  return RoundToChunk(reinterpret_cast<uint64_t>(range));
}

}  // namespace

DeviceMemory::DeviceMemory(Device* device) : device_(device) {
  const uint64_t addresses = MapRange(PROT_NONE);
  const uint64_t bytes = MapRange(PROT_READ | PROT_WRITE);
  if (addresses == 0 || bytes == 0) return;
  base_ = addresses;
  span_ = kSpanBytes;
  to_backing_ = bytes - addresses;
  free_ranges_[base_] = span_;
}

bool DeviceMemory::Charge(uint64_t bytes) {
  RefundUnused();
  return device_->state()->TakeMemory(device_->card_index(), device_->seat(), bytes);
}

void DeviceMemory::Refund(uint64_t bytes) {
  device_->state()->ReturnMemory(device_->card_index(), device_->seat(), bytes);
}

CUdeviceptr DeviceMemory::TakeRange(uint64_t bytes, uint64_t alignment) {
  for (auto range = free_ranges_.begin(); range != free_ranges_.end(); ++range) {
    const CUdeviceptr start = (range->first + alignment - 1) / alignment * alignment;
    const CUdeviceptr end = range->first + range->second;
    if (start + bytes > end || start + bytes < start) continue;
    const CUdeviceptr range_start = range->first;
    free_ranges_.erase(range);
    if (start > range_start) free_ranges_[range_start] = start - range_start;
    if (end > start + bytes) free_ranges_[start + bytes] = end - start - bytes;
    return start;
  }
  return 0;
}

// Pages that the range shares with a neighbour stay.
void DeviceMemory::Discard(CUdeviceptr address, uint64_t bytes) {
  const uint64_t first = RoundTo(address, kPageBytes);
  const uint64_t last = (address + bytes) / kPageBytes * kPageBytes;
  if (last > first) {
    madvise(reinterpret_cast<void*>(first + to_backing_), last - first, MADV_DONTNEED);
  }
  const std::lock_guard<std::mutex> lock(shared_mutex_);
  auto next = shared_.lower_bound(address);
  while (next != shared_.end() && next->first < address + bytes) {
    mmap(reinterpret_cast<void*>(next->first + to_backing_), next->second, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    next = shared_.erase(next);
  }
}

bool DeviceMemory::Share(CUdeviceptr address, uint64_t bytes, int fd, uint64_t offset) {
  void* place = reinterpret_cast<void*>(address + to_backing_);
  if (mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    return false;
  }
  const std::lock_guard<std::mutex> lock(shared_mutex_);
  shared_[address] = bytes;
  return true;
}

bool DeviceMemory::ShareKept(CUdeviceptr address, uint64_t bytes, int fd) {
  auto* place = reinterpret_cast<char*>(address + to_backing_);
  // Pages that were never touched are zeros on both sides.
  std::vector<unsigned char> resident(bytes / kPageBytes);
  if (mincore(place, bytes, resident.data()) != 0) return false;
  for (size_t page = 0; page < resident.size(); ++page) {
    if ((resident[page] & 1) == 0) continue;
    const off_t offset = static_cast<off_t>(page * kPageBytes);
    if (pwrite(fd, place + offset, kPageBytes, offset) != ssize_t{kPageBytes}) return false;
  }
  return Share(address, bytes, fd, 0);
}

bool DeviceMemory::IsShared(CUdeviceptr address) const {
  const std::lock_guard<std::mutex> lock(shared_mutex_);
  return shared_.count(address) > 0;
}

void DeviceMemory::GiveRange(CUdeviceptr address, uint64_t bytes) {
  Discard(address, bytes);
  auto next = free_ranges_.lower_bound(address);
  if (next != free_ranges_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = free_ranges_.erase(next);
  }
  if (next != free_ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  free_ranges_[address] = bytes;
}

uint64_t DeviceMemory::Slab::Take(uint64_t bytes) {
  for (auto hole = holes.begin(); hole != holes.end(); ++hole) {
    const auto [offset, length] = *hole;
    if (length < bytes) continue;
    holes.erase(hole);
    if (length > bytes) holes[offset + bytes] = length - bytes;
    ++live;
    return offset;
  }
  return kChunkBytes;
}

void DeviceMemory::Slab::Give(uint64_t offset, uint64_t bytes) {
  --live;
  const auto next = holes.find(offset + bytes);
  if (next != holes.end()) {
    bytes += next->second;
    holes.erase(next);
  }
  const auto after = holes.upper_bound(offset);
  if (after != holes.begin()) {
    auto& [before, length] = *std::prev(after);
    if (before + length == offset) {
      length += bytes;
      return;
    }
  }
  holes[offset] = bytes;
}

CUresult DeviceMemory::AllocateSmall(uint64_t bytes, SlabsOf slabs, CUdeviceptr* address) {
  const uint64_t block = RoundTo(bytes, kSmallestBlock);
  for (auto& [start, slab] : slabs_) {
    if (slab.whose != slabs) continue;
    const uint64_t offset = slab.Take(block);
    if (offset == kChunkBytes) continue;
    *address = start + offset;
    return CUDA_SUCCESS;
  }
  if (!Charge(kChunkBytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUdeviceptr start = TakeRange(kChunkBytes, kChunkBytes);
  Slab& slab = slabs_[start];
  slab.holes[0] = kChunkBytes;
  slab.whose = slabs;
  *address = start + slab.Take(block);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::Allocate(Context* context, uint64_t bytes, MemoryKind kind,
                                CUdeviceptr* address, SlabsOf slabs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.kind = kind;
  allocation.context = context;
  allocation.device = device_;
  if (bytes <= kLargestSmall) {
    const CUresult result = AllocateSmall(bytes, slabs, &allocation.address);
    if (result != CUDA_SUCCESS) return result;
  } else {
    if (bytes > span_) return CUDA_ERROR_OUT_OF_MEMORY;
    allocation.charged = RoundToChunk(bytes);
    if (!Charge(allocation.charged)) return CUDA_ERROR_OUT_OF_MEMORY;
    allocation.address = TakeRange(allocation.charged, kChunkBytes);
    if (allocation.address == 0) {
      Refund(allocation.charged);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  allocations_[allocation.address] = allocation;
  *address = allocation.address;
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::Reserve(Context* context, uint64_t bytes, uint64_t alignment,
                               MemoryKind kind, Pool* pool, CUdeviceptr* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t range = RangeOf(bytes, kind);
  if (bytes > span_) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t least = kind == MemoryKind::kPool ? kSmallestBlock : kChunkBytes;
  const CUdeviceptr start = TakeRange(range, std::max(alignment, least));
  if (start == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation& allocation = allocations_[start];
  allocation.address = start;
  allocation.bytes = bytes;
  allocation.kind = kind;
  allocation.context = context;
  allocation.pool = pool;
  allocation.device = device_;
  *address = start;
  return CUDA_SUCCESS;
}

void DeviceMemory::FreeSmall(const Allocation& allocation) {
  const CUdeviceptr start = allocation.address / kChunkBytes * kChunkBytes;
  const auto found = slabs_.find(start);
  Slab& slab = found->second;
  slab.Give(allocation.address - start, RoundTo(allocation.bytes, kSmallestBlock));
  if (slab.live > 0) return;
  slabs_.erase(found);
  GiveRange(start, kChunkBytes);
  Refund(kChunkBytes);
}

void DeviceMemory::Release(const Allocation& allocation) {
  if (allocation.charged == 0 &&
      (allocation.kind == MemoryKind::kLinear || allocation.kind == MemoryKind::kArray)) {
    FreeSmall(allocation);
    return;
  }
  GiveRange(allocation.address, RangeOf(allocation.bytes, allocation.kind));
  if (allocation.charged > 0) Refund(allocation.charged);
}

CUresult DeviceMemory::Free(CUdeviceptr address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(address);
  if (found == allocations_.end()) return CUDA_ERROR_INVALID_VALUE;
  Release(found->second);
  allocations_.erase(found);
  return CUDA_SUCCESS;
}

void DeviceMemory::FreeAllOf(Context* context) {
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

bool DeviceMemory::Find(CUdeviceptr address, Allocation* out) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return false;
  const Allocation& allocation = std::prev(after)->second;
  if (address - allocation.address >= allocation.bytes) return false;
  *out = allocation;
  return true;
}

void* DeviceMemory::Backing(CUdeviceptr address, uint64_t bytes) const {
  Allocation allocation;
  if (!Find(address, &allocation)) return nullptr;
  if (bytes > allocation.bytes - (address - allocation.address)) return nullptr;
  if (allocation.kind == MemoryKind::kReserved && !IsMapped(address, bytes)) return nullptr;
  return reinterpret_cast<void*>(address + to_backing_);
}

bool IsDeviceMemory(CUdeviceptr address) {
  Allocation ignored;
  return FindAllocation(address, &ignored);
}

bool FindAllocation(CUdeviceptr address, Allocation* out) {
  for (const auto& device : Devices()) {
    if (!device->is_attached()) continue;
    if (device->memory().Contains(address)) return device->memory().Find(address, out);
  }
  return TheHostMemory().Find(address, out);
}

void* BackingOf(CUdeviceptr address, uint64_t bytes) {
  for (const auto& device : Devices()) {
    if (!device->is_attached()) continue;
    if (device->memory().Contains(address)) return device->memory().Backing(address, bytes);
  }
  return reinterpret_cast<void*>(address);
}

}  // namespace krux::sim
