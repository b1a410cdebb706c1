// Which 2 MiB chunks of device addresses hold small allocations. A slab is charged with its first
// block and returned with its last one, as the driver does it.
// Thread rule: none; Allocations holds its lock around every call.
#ifndef KRUX_LIMITER_MEMORY_SLABS_H_
#define KRUX_LIMITER_MEMORY_SLABS_H_

#include <cstdint>

#include "limiter/life/table.h"
#include "limiter/memory/sizes.h"

namespace krux::limiter {

class Slabs {
 public:
  // True when the block at `address` opens a slab that was not there.
  bool Add(uint64_t address, uint64_t bytes, uint32_t gpu) {
    Slab* slab = slabs_.Insert(KeyOf(address));
    if (slab == nullptr) return true;  // no memory for the count: charged for itself
    slab->gpu = gpu;
    slab->live_bytes += BytesInSlab(bytes);
    return slab->blocks++ == 0;
  }

  // True when the block was the last one of its slab.
  bool Remove(uint64_t address, uint64_t bytes) {
    Slab* slab = slabs_.Find(KeyOf(address));
    if (slab == nullptr) return true;
    slab->live_bytes -=
        BytesInSlab(bytes) < slab->live_bytes ? BytesInSlab(bytes) : slab->live_bytes;
    if (--slab->blocks != 0) return false;
    slabs_.Remove(KeyOf(address));
    return true;
  }

  // Whether a block of `bytes` may fit into a slab that is charged already.
  bool MayFit(uint64_t bytes, uint32_t gpu) {
    bool fits = false;
    slabs_.RemoveIf([&](uint64_t, const Slab& slab) {
      fits = fits || (slab.gpu == gpu && slab.live_bytes + BytesInSlab(bytes) <= kSlabBytes);
      return false;
    });
    return fits;
  }

  size_t size() const { return slabs_.size(); }
  void Forget() { slabs_.Forget(); }

 private:
  struct Slab {
    uint32_t blocks;
    uint32_t gpu;
    uint64_t live_bytes;
  };
  static uint64_t KeyOf(uint64_t address) { return address / kSlabBytes + 1; }

  Table<Slab> slabs_;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_SLABS_H_
