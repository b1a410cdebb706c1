// Arrays: memory with a shape. Elements lie row by row, layer by layer (a real card tiles them; the
// program can't see it).
#ifndef KRUX_SIM_CUDA_ARRAY_H_
#define KRUX_SIM_CUDA_ARRAY_H_

#include <cuda.h>

#include <vector>

#include "sim/cuda/driver.h"

namespace krux::sim {

// Of one channel; 0: a format that is not simulated.
size_t FormatBytes(CUarray_format format);

struct Array : Tagged {
  static constexpr uint32_t kTag = 0x41525259;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  Device* device = nullptr;
  CUdeviceptr address = 0;
  size_t element_bytes = 0;
  bool is_level = false;  // of a mipmapped array, which owns the memory
  size_t row_bytes() const { return descriptor.Width * element_bytes; }
  size_t rows() const { return descriptor.Height > 0 ? descriptor.Height : 1; }
  size_t layers() const { return descriptor.Depth > 0 ? descriptor.Depth : 1; }
};

struct MipmappedArray : Tagged {
  static constexpr uint32_t kTag = 0x4d495041;
  Device* device = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  bool is_deferred = false;  // without memory
  std::vector<Array*> levels;
};

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_ARRAY_H_
