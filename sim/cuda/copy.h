// Copies and memsets: they really move bytes. Called by the cuMemcpy* and cuMemset* functions.
#ifndef KRUX_SIM_CUDA_COPY_H_
#define KRUX_SIM_CUDA_COPY_H_

#include <cuda.h>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"

namespace krux::sim {

// One side of a copy of `rows` x `layers` runs of bytes.
struct Side {
  char* start = nullptr;
  size_t pitch = 0;  // from row to row
  size_t layer = 0;  // from layer to layer
  bool is_device = false;
  CUdeviceptr address = 0;  // of the API; 0: host memory that the program gave as such
};
struct Shape {
  size_t width = 0;  // bytes
  size_t rows = 1;
  size_t layers = 1;
};

// `bytes` of memory at an address of either side; false: not (all) valid.
bool SideOf(CUdeviceptr address, size_t bytes, Side* side);
// The same for an address that must be the driver's own: memory it does not know is refused.
bool DeviceSideOf(CUdeviceptr address, size_t bytes, Side* side);
// A host pointer, which may point to memory of a card too.
bool HostSideOf(const void* pointer, size_t bytes, Side* side);

// A copy as the API's largest structure describes it.
CUresult CopyWork3D(const CUDA_MEMCPY3D* copy, Work* work);
Work CopyWork(const Side& to, const Side& from, const Shape& shape);
CUresult CopyLinear(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes, bool waits);
// Enqueues, and waits for the end if asked to.
CUresult RunCopy(CUstream stream, const Side& to, const Side& from, const Shape& shape, bool waits);

// Sets `count` x `rows` elements of 1, 2 or 4 bytes.
CUresult FillWork(CUdeviceptr to, size_t pitch, uint32_t value, size_t element_bytes, size_t count,
                  size_t rows, Work* work);
CUresult Fill(CUstream stream, CUdeviceptr to, size_t pitch, uint32_t value, size_t element_bytes,
              size_t count, size_t rows);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_COPY_H_
