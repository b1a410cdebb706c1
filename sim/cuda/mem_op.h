// Values written and awaited in streams: cuStreamWriteValue, cuStreamWaitValue and batches of them.
#ifndef KRUX_SIM_CUDA_MEM_OP_H_
#define KRUX_SIM_CUDA_MEM_OP_H_

#include <cuda.h>

#include "sim/cuda/capture.h"

namespace krux::sim {

// One operation as work; CUDA_ERROR_INVALID_VALUE or CUDA_ERROR_NOT_SUPPORTED for what is no such.
CUresult MemOpWork(const CUstreamBatchMemOpParams& operation, Work* work);
// Several as the work of one node, with the operations as its parameters.
CUresult BatchWork(const CUstreamBatchMemOpParams* operations, unsigned count, Work* work);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_MEM_OP_H_
