// Libraries and their kernels: cuLibrary* and what turns a kernel into a function of a context.
#include "common/file.h"
#include "sim/cuda/module.h"

using krux::sim::Checked;
using krux::sim::Function;
using krux::sim::Library;
using krux::sim::Module;

#define KRUX_SIM_LIBRARY(name, handle)            \
  KRUX_SIM_READY();                               \
  Library* const name = Checked<Library>(handle); \
  if (name == nullptr) return CUDA_ERROR_INVALID_HANDLE

namespace {

CUresult Load(CUlibrary* out, const void* image) {
  KRUX_SIM_READY();
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Library* library = nullptr;
  const CUresult result = krux::sim::LoadLibrary(image, &library);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUlibrary>(library);
  return result;
}

Function* CheckedKernel(CUkernel handle) {
  Function* kernel = Checked<Function>(handle);
  return kernel != nullptr && kernel->library != nullptr ? kernel : nullptr;
}

}  // namespace

CUresult CUDAAPI cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*, void**,
                                   unsigned int, CUlibraryOption*, void**, unsigned int) {
  return Load(out, image);
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**,
                                       unsigned int, CUlibraryOption*, void**, unsigned int) {
  KRUX_SIM_READY();
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const krux::Result<std::string> text = krux::ReadFile(path, 256 << 20);
  return text ? Load(out, text->c_str()) : CUDA_ERROR_FILE_NOT_FOUND;
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary handle) {
  KRUX_SIM_LIBRARY(library, handle);
  Unload(library);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  KRUX_SIM_LIBRARY(library, handle);
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Function* kernel = krux::sim::FindFunction(library->kernels, name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = reinterpret_cast<CUkernel>(kernel);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  KRUX_SIM_LIBRARY(library, handle);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(library->kernels.size());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel* out, unsigned int count, CUlibrary handle) {
  KRUX_SIM_LIBRARY(library, handle);
  if (out == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count && i < library->kernels.size(); ++i) {
    out[i] = reinterpret_cast<CUkernel>(library->kernels[i]);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  KRUX_SIM_LIBRARY(library, handle);
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = nullptr;
  const CUresult result = ModuleOf(library, context, &module);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(module);
  return result;
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                                    const char* name) {
  CUmodule module = nullptr;
  const CUresult result = cuLibraryGetModule(&module, handle);
  return result == CUDA_SUCCESS ? cuModuleGetGlobal_v2(address, bytes, module, name) : result;
}

// Managed variables of an image are not told apart from others.
CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr*, size_t*, CUlibrary handle, const char* name) {
  KRUX_SIM_LIBRARY(library, handle);
  return name == nullptr || library == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  KRUX_SIM_READY();
  Function* kernel = CheckedKernel(handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = nullptr;
  const CUresult result = ModuleOf(kernel->library, context, &module);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUfunction>(module->functions[kernel->index]);
  return result;
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
  KRUX_SIM_READY();
  Function* kernel = CheckedKernel(handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUlibrary>(kernel->library);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetName(const char** name, CUkernel handle) {
  return cuFuncGetName(name, reinterpret_cast<CUfunction>(handle));
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset,
                                      size_t* bytes) {
  return cuFuncGetParamInfo(reinterpret_cast<CUfunction>(handle), index, offset, bytes);
}

CUresult CUDAAPI cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                                      CUdevice device) {
  KRUX_SIM_READY();
  if (krux::sim::FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(handle));
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                                      CUdevice device) {
  KRUX_SIM_READY();
  if (krux::sim::FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return cuFuncSetAttribute(reinterpret_cast<CUfunction>(handle), attribute, value);
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice device) {
  KRUX_SIM_READY();
  if (krux::sim::FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return cuFuncSetCacheConfig(reinterpret_cast<CUfunction>(handle), config);
}
