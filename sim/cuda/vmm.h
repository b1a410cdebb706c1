// Virtual memory management: physical memory as handles, address ranges, and what is mapped where.
// Bytes of memory that can be shared (requestedHandleTypes), and of memory that is mapped a second
// time, belong to its handle. Of all other memory they belong to the address: unmapping loses them.
// Thread-safe.
#ifndef KRUX_SIM_CUDA_VMM_H_
#define KRUX_SIM_CUDA_VMM_H_

#include <cuda.h>

#include <cstdint>

namespace krux::sim {

// True if all of the range is mapped with access.
bool IsMapped(CUdeviceptr address, uint64_t bytes);

// True if something is mapped at the address, with access or without.
bool HasMapping(CUdeviceptr address);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_VMM_H_
