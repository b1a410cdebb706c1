// Modules, libraries and kernels as the API shows them. What an image holds is read by image.h;
// what a kernel costs and whether it computes is looked up by its name (profile.h, compute.h).
//
// A library's kernels belong to no context. In each context that uses them they have a module of
// their own, made at first use, which also holds the library's globals there.
#ifndef KRUX_SIM_CUDA_MODULE_H_
#define KRUX_SIM_CUDA_MODULE_H_

#include <cuda.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "sim/cuda/compute.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/image.h"

namespace krux::sim {

struct Module;
struct Library;

// CUfunction and CUkernel alike: a launch takes either.
struct Function : Tagged, ImageFunction {
  static constexpr uint32_t kTag = 0x46554e43;
  Module* module = nullptr;    // null: a kernel of a library
  Library* library = nullptr;  // null: a function of a module that was loaded as such
  size_t index = 0;            // in the module or library
  int ptx_version = 0;
  int binary_version = 0;
  int max_dynamic_shared_bytes = 48 * 1024;
  int carveout = -1;
  bool allows_large_clusters = false;
  // Looked up once, at load.
  bool has_named_cost = false;
  Nanos base_cost = 0;
  uint64_t picoseconds_per_unit = 0;
  uint32_t cost_parameter = 0;
  bool uses_heap = false;                 // its module calls malloc
  const NamedKernel* computes = nullptr;  // null: takes time, does nothing
};

struct Global {
  std::string name;
  uint64_t bytes = 0;
  CUdeviceptr address = 0;
};

struct Module : Tagged {
  static constexpr uint32_t kTag = 0x4d4f4455;
  Context* context = nullptr;
  uint64_t context_id = 0;  // a primary context that comes to life again is another one
  Library* library = nullptr;
  std::vector<Function*> functions;
  std::vector<Global> globals;
};

struct Library : Tagged {
  static constexpr uint32_t kTag = 0x4c494252;
  Image image;
  CUresult error = CUDA_SUCCESS;  // of PTX that does not compile: noticed when it is first used
  std::vector<Function*> kernels;
  std::mutex mutex;                     // guards the rest
  std::map<uint64_t, Module*> modules;  // by context id
};

// `image` is null-terminated PTX, a cubin or a fat binary.
CUresult LoadModule(Context* context, const void* image, Module** out);
CUresult LoadLibrary(const void* image, Library** out);
// The library's module in a context.
CUresult ModuleOf(Library* library, Context* context, Module** out);
void Unload(Module* module);
void Unload(Library* library);
Function* FindFunction(const std::vector<Function*>& functions, const char* name);

// Time of one launch and the part of the card that it fills.
struct LaunchCost {
  Nanos time = 0;
  float width = 1;
};
LaunchCost CostOf(const Function& function, Card& card, uint64_t blocks, uint64_t threads_per_block,
                  void** parameters, const void* packed_parameters);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_MODULE_H_
