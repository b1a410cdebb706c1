// What programs give the driver to load: PTX text, cubins (ELF), and fat binaries that hold several
// of both, packed or not. No code is executed: names, parameters and memory needs are read.
//
// Stateless; thread-safe. The images come from the program itself: lengths are taken from their
// headers, and what does not add up is refused, never followed.
#ifndef KRUX_SIM_CUDA_IMAGE_H_
#define KRUX_SIM_CUDA_IMAGE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace krux::sim {

struct Parameter {
  size_t offset = 0;
  size_t bytes = 0;
};

struct ImageFunction {
  std::string name;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  uint64_t local_bytes = 0;     // per thread
  uint64_t shared_bytes = 0;    // static
  uint64_t constant_bytes = 0;  // of the whole image
  int registers = 32;           // of PTX the compiler decides: a middling figure
  int max_threads = 1024;       // launch bounds
};

struct ImageGlobal {
  std::string name;
  uint64_t bytes = 0;
  std::string initial;  // may be shorter: the rest is zeros
};

struct Image {
  int ptx_version = 0;     // compute capability that the PTX was written for, 80 for sm_80
  int binary_version = 0;  // that the code runs on
  std::vector<ImageFunction> functions;
  std::vector<ImageGlobal> globals;
  // Functions of the driver's that it links to what calls them.
  bool calls_malloc = false;
  bool calls_printf = false;
};

// Reads what suits a card of compute capability `capability` (90 for 9.0) into *out, adding to what
// is there. `limit`: the image may not be longer (its end is known from its headers, or is the zero
// after PTX text). CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX, or
// CUDA_ERROR_NO_BINARY_FOR_GPU.
CUresult ReadImage(const void* data, size_t limit, int capability, Image* out);

// The parts of it.
CUresult ReadPtx(std::string_view text, int capability, Image* out);
CUresult ReadCubin(std::string_view bytes, Image* out);
CUresult ReadFatbin(std::string_view bytes, int capability, Image* out);
// Length of the fat binary or cubin that starts at `data`; 0 when the header is not right.
size_t FatbinBytes(const void* data, size_t limit);
size_t CubinBytes(const void* data, size_t limit);
// Compute capability that a cubin was made for; 0: unknown.
int CubinCapability(std::string_view bytes);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_IMAGE_H_
