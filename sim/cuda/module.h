// Modules, libraries and kernels. No code is executed: what a kernel is, its names, parameters and
// memory needs, is read from PTX text; what it costs is looked up by name (profile.h).
#ifndef KRUX_SIM_CUDA_MODULE_H_
#define KRUX_SIM_CUDA_MODULE_H_

#include <cuda.h>

#include <memory>
#include <string>
#include <vector>

#include "sim/cuda/driver.h"

namespace krux::sim {

struct Module;

struct Parameter {
  size_t offset = 0;
  size_t bytes = 0;
};

// CUfunction and CUkernel alike.
struct Function : Tagged {
  static constexpr uint32_t kTag = 0x46554e43;
  std::string name;
  Module* module = nullptr;
  std::vector<Parameter> parameters;
  size_t parameter_bytes = 0;
  uint64_t local_bytes = 0;   // per thread
  uint64_t shared_bytes = 0;  // static
  int max_dynamic_shared_bytes = 48 * 1024;
  // Cost, looked up once at load.
  bool has_named_cost = false;
  Nanos base_cost = 0;
  uint64_t picoseconds_per_unit = 0;
  uint32_t cost_parameter = 0;
};

struct Global {
  std::string name;
  uint64_t bytes = 0;
  CUdeviceptr address = 0;
};

// CUmodule and CUlibrary alike.
struct Module : Tagged {
  static constexpr uint32_t kTag = 0x4d4f4455;
  Context* context = nullptr;  // null for a library
  std::vector<Function*> functions;
  std::vector<Global> globals;
};

// Reads PTX text (null-terminated, at most 64 MiB). CUDA_ERROR_INVALID_IMAGE for what is no PTX:
// cubins and fat binaries are not simulated yet; CUDA_ERROR_INVALID_PTX when nothing can be found.
CUresult LoadPtx(const char* text, std::unique_ptr<Module>* out);

// Time of one launch and the part of the card that it fills.
struct LaunchCost {
  Nanos time = 0;
  float width = 1;
};
LaunchCost CostOf(const Function& function, Card& card, uint64_t blocks, uint64_t threads_per_block,
                  void** parameters, const void* packed_parameters);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_MODULE_H_
