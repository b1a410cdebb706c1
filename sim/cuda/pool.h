// Stream-ordered memory: pools that grow in steps of 32 MiB (as an H200's own pools do) and keep
// freed memory until they are trimmed or the release threshold lets it go at a synchronisation.
// Thread-safe. Blocks have addresses of their own; what the card is charged is the pool's reserve.
#ifndef KRUX_SIM_CUDA_POOL_H_
#define KRUX_SIM_CUDA_POOL_H_

#include <cuda.h>

#include <mutex>

#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"

namespace krux::sim {

struct Pool : Tagged {
  static constexpr uint32_t kTag = 0x504f4f4c;
  Device* device = nullptr;  // null: host memory, which no card pays
  bool is_shareable = false;
  std::mutex mutex;  // guards the rest
  uint64_t used = 0;
  uint64_t forgotten = 0;  // freed by cuMemFree, which the driver goes on counting as used
  uint64_t used_high = 0;
  uint64_t reserved = 0;
  uint64_t reserved_high = 0;
  uint64_t release_threshold = 0;
  uint64_t max_bytes = 0;  // 0: no bound of its own
  size_t live = 0;
  bool is_doomed = false;  // destroyed while blocks live: ends with the last one

  // REQUIRES: mutex held. Grows the reserve if needed; false: the card or the bound is full.
  bool Take(uint64_t bytes);
  void Give(uint64_t bytes);
  void TrimTo(uint64_t keep);
};

CUresult AllocateFromPool(Context* context, Pool* pool, uint64_t bytes, CUdeviceptr* out);
CUresult FreePoolBlock(const Allocation& allocation);
// The same by cuMemFree, not in a stream.
CUresult ForgetPoolBlock(const Allocation& allocation);

Pool* DefaultPool(Device* device);
// The pool that cuMemAllocAsync uses on a device now.
Pool* CurrentPool(Device* device);
void SetCurrentPool(Device* device, Pool* pool);

// After a synchronisation: every pool of the device lets go what its threshold does not keep.
void TrimPools(Device* device);
void RegisterPool(Pool* pool);
void ForgetPool(Pool* pool);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_POOL_H_
