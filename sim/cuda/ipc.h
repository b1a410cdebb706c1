// Memory and events that other processes of the same pid namespace open. The bytes lie in a file
// without a name (memfd) that the other process opens through /proc, so nothing is left when either
// dies. The exporting process alone pays for the memory.
//
// Thread-safe. Handles come from other processes: what does not add up is refused.
#ifndef KRUX_SIM_CUDA_IPC_H_
#define KRUX_SIM_CUDA_IPC_H_

#include <cuda.h>

#include <cstdint>

#include "common/fd.h"

namespace krux::sim {

// A file of that size which says by its name to which card it belongs; invalid: none could be made.
UniqueFd MakeSharedFile(uint32_t card, uint64_t bytes);
// The card that such a file belongs to and its size; false: it is no such file.
bool ReadSharedFile(int fd, uint32_t* card, uint64_t* bytes);
// Opens descriptor `fd` of process `pid`.
UniqueFd OpenOfProcess(int32_t pid, int32_t fd);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_IPC_H_
