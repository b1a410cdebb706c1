// Modules: cuModule*. Libraries are in api_library.cc, what is asked of a kernel in
// api_function.cc.
#include "common/file.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/module.h"

using krux::sim::Checked;
using krux::sim::Function;
using krux::sim::Global;
using krux::sim::Module;

namespace {

CUresult Load(CUmodule* out, const void* image) {
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = nullptr;
  const CUresult result = krux::sim::LoadModule(context, image, &module);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(module);
  return result;
}

}  // namespace

CUresult CUDAAPI cuModuleLoadData(CUmodule* out, const void* image) { return Load(out, image); }
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int, CUjit_option*,
                                    void**) {
  return Load(out, image);
}
CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return Load(out, image);
}

CUresult CUDAAPI cuModuleLoad(CUmodule* out, const char* path) {
  KRUX_SIM_READY();
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const krux::Result<std::string> text = krux::ReadFile(path, 256 << 20);
  return text ? Load(out, text->c_str()) : CUDA_ERROR_FILE_NOT_FOUND;
}

CUresult CUDAAPI cuModuleUnload(CUmodule handle) {
  KRUX_SIM_CONTEXT(context);
  Module* module = Checked<Module>(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (module->library != nullptr) return CUDA_ERROR_NOT_PERMITTED;
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
  Function* function = krux::sim::FindFunction(module->functions, name);
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

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction* out, unsigned int count, CUmodule handle) {
  KRUX_SIM_READY();
  Module* module = Checked<Module>(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count && i < module->functions.size(); ++i) {
    out[i] = reinterpret_cast<CUfunction>(module->functions[i]);
  }
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
