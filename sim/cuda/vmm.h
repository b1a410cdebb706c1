// Virtual memory management: physical memory as handles, address ranges, and what is mapped where.
// Bytes belong to the address, not to the handle: memory mapped twice is not the same memory, and
// unmapping loses its contents. Thread-safe.
#ifndef KRUX_SIM_CUDA_VMM_H_
#define KRUX_SIM_CUDA_VMM_H_

#include <cuda.h>

#include <cstdint>

namespace krux::sim {

// True if all of the range is mapped with access.
bool IsMapped(CUdeviceptr address, uint64_t bytes);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_VMM_H_
