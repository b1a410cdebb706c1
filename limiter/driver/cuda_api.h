// cuda.h with every version of every name: cuMemAlloc is the old export, cuMemAlloc_v2 the one that
// programs use, cuLaunchKernel_ptsz that of per-thread default streams. All declared functions are
// exported: the entries (entry/*.cc) define those that driver_api.inc lists.
#ifndef KRUX_LIMITER_DRIVER_CUDA_API_H_
#define KRUX_LIMITER_DRIVER_CUDA_API_H_

#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#endif  // KRUX_LIMITER_DRIVER_CUDA_API_H_
