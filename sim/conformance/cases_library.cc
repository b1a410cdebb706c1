// Libraries and kernels: modules that belong to no context.
#include <string>

#include "sim/conformance/families.h"
#include "sim/conformance/kernels.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

CUlibrary Load(Answer& out) {
  CUlibrary library = nullptr;
  out("load", CU(cuLibraryLoadData, &library, kPtx, nullptr, nullptr, 0U, nullptr, nullptr, 0U));
  return library;
}

const Case kCases[] = {
    {"library.load", kContext,
     [](Answer& out) {
       CUlibrary library = Load(out);
       unsigned count = 77;
       out("count", CU(cuLibraryGetKernelCount, &count, library));
       out("kernels", count);
       out("unload", CU(cuLibraryUnload, library));
     }},
    {"library.load.without-context", kInit,
     [](Answer& out) {
       CUlibrary library = Load(out);
       CUkernel kernel = nullptr;
       out("kernel", CU(cuLibraryGetKernel, &kernel, library, "empty"));
       CUfunction function = nullptr;
       out("function", CU(cuKernelGetFunction, &function, kernel));
     },
     kOwnProcess},
    {"library.load.bad", kContext,
     [](Answer& out) {
       CUlibrary library = nullptr;
       out("null-image",
           CU(cuLibraryLoadData, &library, nullptr, nullptr, nullptr, 0U, nullptr, nullptr, 0U));
       out("null-out",
           CU(cuLibraryLoadData, nullptr, kPtx, nullptr, nullptr, 0U, nullptr, nullptr, 0U));
       out("broken", CU(cuLibraryLoadData, &library, kPtxSyntaxError, nullptr, nullptr, 0U, nullptr,
                        nullptr, 0U));
       out("unload-null", CU(cuLibraryUnload, nullptr));
       out("file", CU(cuLibraryLoadFromFile, &library, "/nonexistent", nullptr, nullptr, 0U,
                      nullptr, nullptr, 0U));
     },
     kOwnProcess},
    {"library.broken.when-noticed", kContext,
     [](Answer& out) {
       CUlibrary library = nullptr;
       const CUresult loaded = CU(cuLibraryLoadData, &library, kPtxSyntaxError, nullptr, nullptr,
                                  0U, nullptr, nullptr, 0U);
       out("load", loaded);
       if (loaded != CUDA_SUCCESS) return;
       CUmodule module = nullptr;
       out("module", CU(cuLibraryGetModule, &module, library));
     },
     kOwnProcess},
    {"library.kernel.get", kContext,
     [](Answer& out) {
       CUlibrary library = Load(out);
       CUkernel kernel = nullptr;
       out("get", CU(cuLibraryGetKernel, &kernel, library, "three"));
       out("missing", CU(cuLibraryGetKernel, &kernel, library, "none"));
       out("null", CU(cuLibraryGetKernel, nullptr, library, "three"));
       const char* name = nullptr;
       CU(cuLibraryGetKernel, &kernel, library, "three");
       out("name", CU(cuKernelGetName, &name, kernel));
       out("text", name == nullptr ? "null" : name);
       CUlibrary owner = nullptr;
       out("library", CU(cuKernelGetLibrary, &owner, kernel));
       out("same", owner == library);
       size_t offset = 77;
       size_t size = 77;
       out("parameter", CU(cuKernelGetParamInfo, kernel, 2, &offset, &size));
       out("at", offset);
       out("size", size);
       CU(cuLibraryUnload, library);
     }},
    {"library.kernel.launch", kContext,
     [](Answer& out) {
       CUlibrary library = Load(out);
       CUkernel kernel = nullptr;
       CU(cuLibraryGetKernel, &kernel, library, "empty");
       CUfunction function = nullptr;
       out("function", CU(cuKernelGetFunction, &function, kernel));
       out("launch-function", Launch(function));
       out("launch-kernel", Launch(reinterpret_cast<CUfunction>(kernel)));
       out("sync", CU(cuCtxSynchronize));
       CU(cuLibraryUnload, library);
     }},
    {"library.kernel.attribute", kContext,
     [](Answer& out) {
       CUlibrary library = Load(out);
       CUkernel kernel = nullptr;
       CU(cuLibraryGetKernel, &kernel, library, "local_8k");
       int value = 0;
       out("local",
           CU(cuKernelGetAttribute, &value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel, 0));
       out("bytes", value);
       out("device",
           CU(cuKernelGetAttribute, &value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel, 1000));
       out("set", CU(cuKernelSetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536,
                     kernel, 0));
       CU(cuLibraryUnload, library);
     }},
    {"library.global", kContext,
     [](Answer& out) {
       CUlibrary library = Load(out);
       CUdeviceptr pointer = 0;
       size_t bytes = 0;
       out("global", CU(cuLibraryGetGlobal, &pointer, &bytes, library, "numbers"));
       out("bytes", bytes);
       out("missing", CU(cuLibraryGetGlobal, &pointer, &bytes, library, "none"));
       out("managed", CU(cuLibraryGetManaged, &pointer, &bytes, library, "numbers"));
       CU(cuLibraryUnload, library);
     }},
    {"library.module", kContext,
     [](Answer& out) {
       CUlibrary library = Load(out);
       CUmodule first = nullptr;
       CUmodule second = nullptr;
       out("module", CU(cuLibraryGetModule, &first, library));
       CU(cuLibraryGetModule, &second, library);
       out("same", first == second);
       CUfunction function = nullptr;
       out("function", CU(cuModuleGetFunction, &function, first, "empty"));
       out("unload-module", CU(cuModuleUnload, first));
       CU(cuLibraryUnload, library);
     },
     kOwnProcess},
};

}  // namespace

std::span<const Case> LibraryCases() { return kCases; }

}  // namespace krux::sim::conformance
