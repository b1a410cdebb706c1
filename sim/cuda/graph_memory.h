// Memory that belongs to graphs: blocks of allocation nodes. A block has its address from the
// node's creation on; the card pays for it from the first launch until the memory is trimmed. All
// blocks of a card lie in one pool that grows in steps of 32 MiB; the driver counts what the pool
// has as used, whether blocks in it are allocated or not.
//
// Thread-safe.
#ifndef KRUX_SIM_CUDA_GRAPH_MEMORY_H_
#define KRUX_SIM_CUDA_GRAPH_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "sim/cuda/driver.h"

namespace krux::sim {

CUresult ReserveGraphBlock(Device* device, uint64_t bytes, CUdeviceptr* address);
// The node is gone: the address goes too, unless the memory is still in use.
void ForgetGraphBlock(CUdeviceptr address);

// A launch that allocates these blocks and frees those. CUDA_ERROR_INVALID_VALUE when one is still
// allocated from a launch before and `frees_first` is not set; CUDA_ERROR_OUT_OF_MEMORY.
CUresult LaunchGraphBlocks(const std::vector<CUdeviceptr>& allocated,
                           const std::vector<CUdeviceptr>& freed, bool frees_first);
// cuMemFree of a block that a graph left allocated. False: it is not.
bool FreeGraphBlock(CUdeviceptr address);

struct GraphMemoryUse {
  uint64_t reserved = 0;  // and used
  uint64_t used_high = 0;
  uint64_t reserved_high = 0;
};
GraphMemoryUse GraphMemoryOf(Device* device);
void ResetGraphMemoryHigh(Device* device, bool of_used);
void TrimGraphMemory(Device* device);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_GRAPH_MEMORY_H_
