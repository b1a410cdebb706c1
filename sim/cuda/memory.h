// Device memory of one card as this process sees it: addresses, the real card's granularity, and
// the account on the shared card.
//
// Device addresses lie in a reserved range that the program can't touch; the bytes lie in a second
// range at a fixed distance, filled in by the kernel as copies and memsets touch them, so that an
// allocation of any size costs no host memory.
//
// Granularity as measured on an H200: above 1 MiB multiples of 2 MiB; up to 1 MiB multiples of 512
// bytes inside 2 MiB slabs that blocks of all sizes share, and a slab is given back when its last
// block is freed.
//
// Thread-safe.
#ifndef KRUX_SIM_CUDA_MEMORY_H_
#define KRUX_SIM_CUDA_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "sim/cuda/driver.h"

namespace krux::sim {

constexpr uint64_t kChunkBytes = 2 * 1024 * 1024;
constexpr uint64_t RoundToChunk(uint64_t bytes) {
  return (bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
}

struct Pool;

// Variables of modules and what programs allocate lie in slabs apart.
enum class SlabsOf { kPrograms, kModules };

enum class MemoryKind { kLinear, kPool, kArray, kReserved, kGraph, kImported, kManaged, kHost };

struct Allocation {
  CUdeviceptr address = 0;
  uint64_t bytes = 0;    // as asked for
  uint64_t charged = 0;  // of this block alone on the card (0: slab, pool or VMM pays)
  MemoryKind kind = MemoryKind::kLinear;
  Context* context = nullptr;
  Pool* pool = nullptr;
  Device* device = nullptr;                // null for plain host memory
  bool is_registered = false;              // host memory of the program's own
  bool is_global = false;                  // a module's variable: goes with the module
  bool syncs = false;                      // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
  unsigned flags = 0;                      // of host memory: CU_MEMHOSTALLOC_*
  CUdevice preferred = CU_DEVICE_INVALID;  // of managed memory: advice, and where it went last
  CUdevice prefetched = CU_DEVICE_INVALID;
  bool is_read_mostly = false;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(Device* device);
  bool is_valid() const { return base_ != 0; }

  // Takes memory from the card and an address for it; CUDA_ERROR_OUT_OF_MEMORY when the card is
  // full.
  CUresult Allocate(Context* context, uint64_t bytes, MemoryKind kind, CUdeviceptr* address,
                    SlabsOf slabs = SlabsOf::kPrograms);
  // An address range that takes no memory of its own: pool blocks, VMM reservations.
  CUresult Reserve(Context* context, uint64_t bytes, uint64_t alignment, MemoryKind kind,
                   Pool* pool, CUdeviceptr* address);
  // REQUIRES: `address` is the start of a live allocation (else CUDA_ERROR_INVALID_VALUE).
  CUresult Free(CUdeviceptr address);
  // Everything that a context owns.
  void FreeAllOf(Context* context);

  bool Contains(CUdeviceptr address) const { return address - base_ < span_; }
  // The live allocation around an address.
  bool Find(CUdeviceptr address, Allocation* out) const;
  // Lets `change` edit it.
  template <typename F>
  void Change(CUdeviceptr address, F change) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto after = allocations_.upper_bound(address);
    if (after != allocations_.begin()) change(std::prev(after)->second);
  }
  // Where the bytes of a device address lie; null unless all of them belong to one allocation.
  void* Backing(CUdeviceptr address, uint64_t bytes) const;

  // Lets the bytes of whole chunks lie in a file that others map too: the file's own, or (kept)
  // those that are there now. Until Discard. False: the system refuses.
  bool Share(CUdeviceptr address, uint64_t bytes, int fd, uint64_t offset);
  bool ShareKept(CUdeviceptr address, uint64_t bytes, int fd);
  bool IsShared(CUdeviceptr address) const;

  // Forgets the bytes of a range; they read as zeros again, and are nobody else's.
  void Discard(CUdeviceptr address, uint64_t bytes);

  // Memory that belongs to no address: contexts, local memory, VMM handles.
  bool Charge(uint64_t bytes);
  void Refund(uint64_t bytes);

 private:
  struct Slab {
    std::map<uint64_t, uint64_t> holes;  // offset, length
    size_t live = 0;
    SlabsOf whose = SlabsOf::kPrograms;
    // The offset of the first hole that is long enough, taken; kChunkBytes: there is none.
    uint64_t Take(uint64_t bytes);
    void Give(uint64_t offset, uint64_t bytes);
  };

  // REQUIRES: mutex_ held.
  CUresult AllocateSmall(uint64_t bytes, SlabsOf slabs, CUdeviceptr* address);
  void FreeSmall(const Allocation& allocation);
  CUdeviceptr TakeRange(uint64_t bytes, uint64_t alignment);
  void GiveRange(CUdeviceptr address, uint64_t bytes);
  void Release(const Allocation& allocation);

  Device* device_;
  CUdeviceptr base_ = 0;
  uint64_t span_ = 0;
  uint64_t to_backing_ = 0;  // added to a device address

  mutable std::mutex mutex_;
  std::map<CUdeviceptr, Allocation> allocations_;
  std::map<CUdeviceptr, uint64_t> free_ranges_;
  std::map<CUdeviceptr, Slab> slabs_;

  mutable std::mutex shared_mutex_;  // taken after mutex_; guards the rest
  std::map<CUdeviceptr, uint64_t> shared_;
};

// Host memory known to the driver, and managed memory: addresses that host and device share.
class HostMemory {
 public:
  CUresult Allocate(Context* context, uint64_t bytes, MemoryKind kind, void** out,
                    unsigned flags = 0);
  CUresult Free(void* pointer, MemoryKind kind);
  CUresult Register(Context* context, void* pointer, uint64_t bytes, unsigned flags);
  CUresult Unregister(void* pointer);
  bool Find(CUdeviceptr address, Allocation* out) const;
  void FreeAllOf(Context* context);
  // Lets `change` edit the allocation around an address, if there is one.
  template <typename F>
  void Change(CUdeviceptr address, F change) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (Allocation* allocation = FindLocked(address)) change(*allocation);
  }
  // Managed memory that a device touches moves onto its card. The driver takes the card's memory in
  // steps of 128 MiB and keeps what is left of them for the process's next managed memory.
  void TouchOnDevice(CUdeviceptr address);

 private:
  void Release(const Allocation& allocation);
  // REQUIRES: mutex_ held, for both.
  Allocation* FindLocked(CUdeviceptr address);
  bool TakeManaged(Device* device, uint64_t bytes);

  mutable std::mutex mutex_;  // guards the rest
  std::map<CUdeviceptr, Allocation> allocations_;
  std::map<Device*, uint64_t> spare_;  // taken for managed memory, not in use
};
HostMemory& TheHostMemory();

// Whether the driver knows memory at the address: of a card, or of the host.
bool IsDeviceMemory(CUdeviceptr address);
// Any allocation around the address, on any device or host.
bool FindAllocation(CUdeviceptr address, Allocation* out);
// Where `bytes` at an address of either side lie; null: not valid device memory.
void* BackingOf(CUdeviceptr address, uint64_t bytes);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_MEMORY_H_
