// From what the API says of a node to the work that it does. Each fills *work, or says what is
// wrong.
#ifndef KRUX_SIM_CUDA_GRAPH_NODE_H_
#define KRUX_SIM_CUDA_GRAPH_NODE_H_

#include <cuda.h>

#include "sim/cuda/capture.h"

namespace krux::sim {

CUresult EventWork(CUgraphNodeType type, CUevent event, Work* work);
// Reserves the block's address and writes it into `parameters`.
CUresult AllocationWork(CUDA_MEM_ALLOC_NODE_PARAMS* parameters, Work* work);
Work FreeWork(CUdeviceptr address);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_GRAPH_NODE_H_
