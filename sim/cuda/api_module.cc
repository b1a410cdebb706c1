// Modules, libraries, kernels and their attributes.
#include <algorithm>
#include <cstring>

#include "common/file.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/module.h"

using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::Function;
using krux::sim::Global;
using krux::sim::Module;

namespace {

// "fma_loop", or its mangled form "_Z8fma_loop...".
bool MatchesName(const std::string& symbol, const std::string& name) {
  return symbol == name || symbol.rfind("_Z" + std::to_string(name.size()) + name, 0) == 0;
}

void FindCosts(Module* module) {
  const krux::sim::State& state = krux::sim::TheState().data();
  for (Function* function : module->functions) {
    for (uint32_t i = 0; i < state.kernel_cost_count; ++i) {
      const krux::sim::KernelCost& cost = state.kernel_costs[i];
      if (!MatchesName(function->name, cost.name)) continue;
      function->has_named_cost = true;
      function->base_cost = static_cast<krux::Nanos>(cost.base_ns);
      function->picoseconds_per_unit = cost.picoseconds_per_unit;
      function->cost_parameter = cost.parameter;
    }
  }
}

CUresult PlaceGlobals(Module* module, Context* context) {
  for (Global& global : module->globals) {
    const CUresult result = context->device->memory().Allocate(
        context, global.bytes, krux::sim::MemoryKind::kLinear, &global.address);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult Load(const void* image, Context* context, Module** out) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<Module> module;
  const CUresult result = krux::sim::LoadPtx(static_cast<const char*>(image), &module);
  if (result != CUDA_SUCCESS) return result;
  FindCosts(module.get());
  module->context = context;
  if (context != nullptr) {
    if (const CUresult r = PlaceGlobals(module.get(), context); r != CUDA_SUCCESS) return r;
  }
  *out = module.release();
  return CUDA_SUCCESS;
}

CUresult LoadModule(CUmodule* out, const void* image) {
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = nullptr;
  const CUresult result = Load(image, context, &module);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(module);
  return result;
}

void Unload(Module* module) {
  // A context that is gone took its memory with it.
  if (Checked<Context>(module->context) != nullptr) {
    for (const Global& global : module->globals) {
      module->context->device->memory().Free(global.address);
    }
  }
  for (Function* function : module->functions) krux::sim::Bury(function);
  krux::sim::Bury(module);
}

Function* FindFunction(Module* module, const char* name) {
  for (Function* function : module->functions) {
    if (function->name == name) return function;
  }
  return nullptr;
}

CUresult Attribute(int* value, CUfunction_attribute attribute, const Function& function) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(function.shared_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(function.local_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 90;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function.max_dynamic_shared_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = -1;
      return CUDA_SUCCESS;
    default:
      break;
  }
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CUDAAPI cuModuleLoadData(CUmodule* out, const void* image) {
  return LoadModule(out, image);
}
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, CUjit_option*,
                                    void**) {
  return LoadModule(out, image);
}

CUresult CUDAAPI cuModuleLoad(CUmodule* out, const char* path) {
  KRUX_SIM_READY();
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const krux::Result<std::string> text = krux::ReadFile(path, 64 << 20);
  return text ? LoadModule(out, text->c_str()) : CUDA_ERROR_FILE_NOT_FOUND;
}

CUresult CUDAAPI cuModuleUnload(CUmodule handle) {
  KRUX_SIM_CONTEXT(context);
  Module* module = Checked<Module>(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  SynchronizeContext(context);
  Unload(module);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  KRUX_SIM_READY();
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  KRUX_SIM_READY();
  Module* module = Checked<Module>(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Function* function = FindFunction(module, name);
  if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = reinterpret_cast<CUfunction>(function);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  KRUX_SIM_READY();
  Module* module = Checked<Module>(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->functions.size());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                                      const char* name) {
  KRUX_SIM_READY();
  Module* module = Checked<Module>(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const Global& global : module->globals) {
    if (global.name != name) continue;
    if (address != nullptr) *address = global.address;
    if (bytes != nullptr) *bytes = global.bytes;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*, void**,
                                   unsigned int, CUlibraryOption*, void**, unsigned int) {
  KRUX_SIM_READY();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = nullptr;
  const CUresult result = Load(image, nullptr, &module);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUlibrary>(module);
  return result;
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary handle) {
  KRUX_SIM_READY();
  Module* module = Checked<Module>(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Unload(module);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  CUfunction function = nullptr;
  const CUresult result = cuModuleGetFunction(&function, reinterpret_cast<CUmodule>(handle),
                                              out == nullptr ? nullptr : name);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUkernel>(function);
  return result;
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  KRUX_SIM_CONTEXT(context);
  Module* module = Checked<Module>(handle);
  if (module == nullptr || context == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(module);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  KRUX_SIM_CONTEXT(context);
  Function* function = Checked<Function>(handle);
  if (function == nullptr || context == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUfunction>(function);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  KRUX_SIM_READY();
  Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Attribute(value, attribute, *function);
}

CUresult CUDAAPI cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                                      CUdevice) {
  return cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(handle));
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  KRUX_SIM_READY();
  Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value < 0 || value > 232448) return CUDA_ERROR_INVALID_VALUE;
    function->max_dynamic_shared_bytes = value;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                                      CUdevice) {
  return cuFuncSetAttribute(reinterpret_cast<CUfunction>(handle), attribute, value);
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) {
  KRUX_SIM_READY();
  return Checked<Function>(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetModule(CUmodule* out, CUfunction handle) {
  KRUX_SIM_READY();
  Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmodule>(function->module);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction handle) {
  KRUX_SIM_READY();
  Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetName(const char** name, CUkernel handle) {
  return cuFuncGetName(name, reinterpret_cast<CUfunction>(handle));
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset,
                                    size_t* bytes) {
  KRUX_SIM_READY();
  Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (offset == nullptr || index >= function->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->parameters[index].offset;
  if (bytes != nullptr) *bytes = function->parameters[index].bytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset,
                                      size_t* bytes) {
  return cuFuncGetParamInfo(reinterpret_cast<CUfunction>(handle), index, offset, bytes);
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  KRUX_SIM_READY();
  if (Checked<Function>(handle) == nullptr || state == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncLoad(CUfunction handle) {
  KRUX_SIM_READY();
  return Checked<Function>(handle) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction handle, int block_size, size_t dynamic, unsigned int) {
  KRUX_SIM_CONTEXT(context);
  Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (blocks == nullptr || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  const size_t shared = function->shared_bytes + dynamic;
  const auto threads = static_cast<int>(context->device->card().threads_per_multiprocessor);
  int most = block_size > 1024 ? 0 : std::min(threads / ((block_size + 31) / 32 * 32), 32);
  if (shared > 0) most = std::min(most, static_cast<int>(233472 / (shared + 1024)));
  *blocks = most;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                             int block_size, size_t dynamic) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, dynamic,
                                                              0);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block,
                                                           CUfunction function,
                                                           CUoccupancyB2DSize dynamic_of,
                                                           size_t dynamic, int limit,
                                                           unsigned int) {
  KRUX_SIM_CONTEXT(context);
  if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int size = limit > 0 && limit < 1024 ? limit / 32 * 32 : 1024;
  size = std::max(size, 32);
  int blocks = 0;
  const CUresult result = cuOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, function, size, dynamic_of != nullptr ? dynamic_of(size) : dynamic);
  if (result != CUDA_SUCCESS) return result;
  *block = size;
  *grid = blocks * static_cast<int>(context->device->card().multiprocessors);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                  CUoccupancyB2DSize dynamic_of, size_t dynamic,
                                                  int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, dynamic_of, dynamic,
                                                   limit, 0);
}
