// What a kernel launch is, shared by launches, captures and graph nodes.
#ifndef KRUX_SIM_CUDA_LAUNCH_H_
#define KRUX_SIM_CUDA_LAUNCH_H_

#include <cuda.h>

#include "sim/cuda/capture.h"
#include "sim/cuda/module.h"

namespace krux::sim {

struct LaunchShape {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
};

// A launch that needs more local memory per thread than any before makes the context's local memory
// grow, for all threads that the card can hold, and so does a larger stack. Seen on an H200: 8 KiB
// a thread took 1848 MiB, which is (8192 - 1024) bytes for each of 132 x 2048 threads.
// CUDA_ERROR_OUT_OF_MEMORY.
CUresult GrowLocalMemory(Context* context, size_t bytes_per_thread);
// The heap of kernels that call malloc: taken at the first launch of one in a context, as large as
// the context's limit then says. CUDA_ERROR_OUT_OF_MEMORY.
CUresult TakeHeap(Context* context);
bool IsValidLaunch(const LaunchShape& shape, const Function& function);
// The values behind `extra`: CU_LAUNCH_PARAM_BUFFER_POINTER, pointer, ..., CU_LAUNCH_PARAM_END.
const void* PackedParameters(void** extra);
// How many bytes that says there are; 0 when it does not say.
size_t PackedBytes(void** extra);
// A launch as work that can be done again: parameters are copied.
Work KernelWork(Context* context, CUfunction handle, const LaunchShape& shape, void** parameters,
                const void* packed);
Work HostFunctionWork(CUhostFn function, void* data);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_LAUNCH_H_
