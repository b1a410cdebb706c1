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

bool IsValidLaunch(const LaunchShape& shape, const Function& function);
// The values behind `extra`: CU_LAUNCH_PARAM_BUFFER_POINTER, pointer, ..., CU_LAUNCH_PARAM_END.
const void* PackedParameters(void** extra);
// A launch as work that can be done again: parameters are copied.
Work KernelWork(Context* context, CUfunction handle, const LaunchShape& shape, void** parameters,
                const void* packed);
Work HostFunctionWork(CUhostFn function, void* data);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_LAUNCH_H_
