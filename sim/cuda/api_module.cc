// Modules: cuModule*. Libraries are in api_library.cc, what is asked of a kernel in
// api_function.cc.
#include <cstdio>
#include <cstring>

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

// What a compiler would say goes into the caller's buffer; its size becomes the length written.
void WriteLogs(CUresult result, unsigned count, const CUjit_option* options, void** values) {
  size_t room = 0;
  char* log = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) log = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      room = reinterpret_cast<size_t>(values[i]) & 0xffffffffU;
    }
  }
  size_t written = 0;
  if (log != nullptr && room > 0) {
    const char* words =
        result == CUDA_ERROR_INVALID_PTX ? "ptxas fatal : the PTX is not valid" : "";
    std::snprintf(log, room, "%s", words);
    written = std::strlen(log);
  }
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      values[i] = reinterpret_cast<void*>(written);
    }
  }
}

}  // namespace

CUresult CUDAAPI cuModuleLoadData(CUmodule* out, const void* image) { return Load(out, image); }
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int count,
                                    CUjit_option* options, void** values) {
  KRUX_SIM_READY();
  if (count > 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult result = Load(out, image);
  WriteLogs(result, count, options, values);
  return result;
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
  if (out == nullptr || name == nullptr || name[0] == '\0') return CUDA_ERROR_INVALID_VALUE;
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
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (address != nullptr) *address = 0;
  if (bytes != nullptr) *bytes = 0;
  for (const Global& global : module->globals) {
    if (global.name != name) continue;
    if (address != nullptr) *address = global.address;
    if (bytes != nullptr) *bytes = global.bytes;
    return CUDA_SUCCESS;
  }
  return krux::sim::FindFunction(module->functions, name) != nullptr ? CUDA_ERROR_INVALID_VALUE
                                                                     : CUDA_ERROR_NOT_FOUND;
}

// Texture and surface references went with CUDA 12: no module has any.
CUresult CUDAAPI cuModuleGetTexRef(CUtexref* out, CUmodule handle, const char* name) {
  KRUX_SIM_READY();
  if (Checked<Module>(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return out == nullptr || name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}
CUresult CUDAAPI cuModuleGetSurfRef(CUsurfref* out, CUmodule handle, const char* name) {
  KRUX_SIM_READY();
  if (Checked<Module>(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return out == nullptr || name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}
