// From what the API says of a node to the work that it does. Each fills *work, or says what is
// wrong.
#ifndef KRUX_SIM_CUDA_GRAPH_NODE_H_
#define KRUX_SIM_CUDA_GRAPH_NODE_H_

#include <cuda.h>

#include "sim/cuda/capture.h"

namespace krux::sim {

CUresult KernelWorkOf(const CUDA_KERNEL_NODE_PARAMS* p, Work* work);
CUresult KernelWorkOf(const CUDA_KERNEL_NODE_PARAMS_v1* p, Work* work);
CUresult FillWorkOf(const CUDA_MEMSET_NODE_PARAMS* p, Work* work);
CUresult HostWorkOf(const CUDA_HOST_NODE_PARAMS* p, Work* work);
CUresult BatchWorkOf(const CUDA_BATCH_MEM_OP_NODE_PARAMS* p, Work* work);
CUresult FreeWorkOf(CUdeviceptr address, Work* work);
// Kinds whose work follows from the parameters alone.
CUresult WorkOf(const CUgraphNodeParams& p, Work* work);
// Words that a later release may use; one that is set asks for what this driver does not know.
bool HasReservedWords(const CUgraphNodeParams& p);
CUresult EventWork(CUgraphNodeType type, CUevent event, Work* work);
// Reserves the block's address and writes it into `parameters`.
CUresult AllocationWork(CUDA_MEM_ALLOC_NODE_PARAMS* parameters, Work* work);
Work FreeWork(CUdeviceptr address);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_GRAPH_NODE_H_
