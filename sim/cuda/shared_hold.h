// Memory that the program exported as a descriptor stays on the card until nothing refers to it any
// more: no copy of the descriptor in any process, no handle that was made from one, no mapping. All
// of these are one open file to the kernel, which drops the file's lock when the last of them goes.
//
// The process that made the memory pays for it, and the card gets it back when that process next
// asks for memory or for figures. Thread-safe.
#ifndef KRUX_SIM_CUDA_SHARED_HOLD_H_
#define KRUX_SIM_CUDA_SHARED_HOLD_H_

#include <cstdint>

#include "common/fd.h"
#include "sim/cuda/driver.h"

namespace krux::sim {

// To be called before a copy of the descriptor leaves the driver.
bool MarkExported(const UniqueFd& file);
// The driver's own handle is gone: gives the memory back now, or when the last of the others goes.
void RefundWhenUnused(Device* device, uint64_t bytes, UniqueFd file);
// Gives back what nobody refers to any more.
void RefundUnused();

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_SHARED_HOLD_H_
