// Profiler control: there is nothing to profile, so both calls just succeed where the driver's
// would.
#include <cuda.h>
#include <cudaProfiler.h>

#include "sim/cuda/driver.h"

CUresult CUDAAPI cuProfilerStart() {
  KRUX_SIM_CONTEXT(context);
  return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult CUDAAPI cuProfilerStop() {
  KRUX_SIM_CONTEXT(context);
  return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
