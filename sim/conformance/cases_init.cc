// Before and around cuInit: what works without it, versions, error names.
#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

void NameOf(Answer& out, CUresult error) {
  const char* text = "unset";
  out("result", CU(cuGetErrorName, error, &text));
  out("name", text == nullptr ? "null" : text);
}
void StringOf(Answer& out, CUresult error) {
  const char* text = "unset";
  out("result", CU(cuGetErrorString, error, &text));
  out("text", text == nullptr ? "null" : text);
}

const Case kCases[] = {
    {"init.before.version", kNothing,
     [](Answer& out) {
       int version = 0;
       out("result", CU(cuDriverGetVersion, &version));
       out("version", version);
     },
     kOwnProcess},
    {"init.before.device-count", kNothing,
     [](Answer& out) {
       int count = 0;
       out(CU(cuDeviceGetCount, &count));
     },
     kOwnProcess},
    {"init.before.device-get", kNothing,
     [](Answer& out) {
       CUdevice device = 0;
       out(CU(cuDeviceGet, &device, 0));
     },
     kOwnProcess},
    {"init.before.mem-alloc", kNothing,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       out(CU(cuMemAlloc, &pointer, 4096));
     },
     kOwnProcess},
    {"init.before.bad-arguments", kNothing,
     [](Answer& out) {
       out("alloc-null", CU(cuMemAlloc, nullptr, 0));
       out("count-null", CU(cuDeviceGetCount, nullptr));
       out("current-null", CU(cuCtxGetCurrent, nullptr));
     },
     kOwnProcess},
    {"init.before.context", kNothing,
     [](Answer& out) {
       CUcontext context = nullptr;
       out("current", CU(cuCtxGetCurrent, &context));
       out("set", CU(cuCtxSetCurrent, nullptr));
       out("sync", CU(cuCtxSynchronize));
       out("retain", CU(cuDevicePrimaryCtxRetain, &context, 0));
     },
     kOwnProcess},
    {"init.before.error-name", kNothing, [](Answer& out) { NameOf(out, CUDA_ERROR_INVALID_VALUE); },
     kOwnProcess},
    {"init.before.proc-address", kNothing,
     [](Answer& out) {
       void* address = nullptr;
       CUdriverProcAddressQueryResult status{};
       out("result", CU(cuGetProcAddress, "cuInit", &address, 12000, 0U, &status));
       out("found", address != nullptr);
     },
     kOwnProcess},
    {"init.before.export-table", kNothing,
     [](Answer& out) {
       const void* table = nullptr;
       CUuuid id{};
       out(CU(cuGetExportTable, &table, &id));
     },
     kOwnProcess},
    {"init.flags", kNothing,
     [](Answer& out) {
       out("one", CU(cuInit, 1U));
       out("zero", CU(cuInit, 0U));
       out("again", CU(cuInit, 0U));
       out("one-after", CU(cuInit, 1U));
     },
     kOwnProcess},
    {"init.version-null", kInit, [](Answer& out) { out(CU(cuDriverGetVersion, nullptr)); }},
    {"init.no-context-yet", kInit,
     [](Answer& out) {
       CUcontext context = nullptr;
       CUdeviceptr pointer = 0;
       CUstream stream = nullptr;
       out("current", CU(cuCtxGetCurrent, &context));
       out("is-null", context == nullptr);
       out("alloc", CU(cuMemAlloc, &pointer, 4096));
       out("stream", CU(cuStreamCreate, &stream, 0));
       out("sync", CU(cuCtxSynchronize));
       out("pop", CU(cuCtxPopCurrent, &context));
     },
     kOwnProcess},
    {"init.fork-child", kInit, [](Answer& out) { out("child", RunHelper("fork-child")); }, kAlone},
    {"error.name.success", kNothing, [](Answer& out) { NameOf(out, CUDA_SUCCESS); }},
    {"error.name.unknown-number", kNothing, [](Answer& out) { NameOf(out, Odd<CUresult>(12345)); }},
    {"error.name.null", kNothing,
     [](Answer& out) { out(CU(cuGetErrorName, CUDA_SUCCESS, nullptr)); }},
    {"error.string.null", kNothing,
     [](Answer& out) { out(CU(cuGetErrorString, CUDA_SUCCESS, nullptr)); }},
    {"error.string.unknown-number", kNothing,
     [](Answer& out) { StringOf(out, Odd<CUresult>(12345)); }},
    {"error.string.success", kNothing, [](Answer& out) { StringOf(out, CUDA_SUCCESS); }},
    {"error.string.out-of-memory", kNothing,
     [](Answer& out) { StringOf(out, CUDA_ERROR_OUT_OF_MEMORY); }},
    {"error.string.not-initialized", kNothing,
     [](Answer& out) { StringOf(out, CUDA_ERROR_NOT_INITIALIZED); }},
    {"error.string.all", kNothing,
     [](Answer& out) {
       for (int number = 0; number < 1000; ++number) {
         const char* text = nullptr;
         if (CU(cuGetErrorString, static_cast<CUresult>(number), &text) != CUDA_SUCCESS) continue;
         out(std::to_string(number), text == nullptr ? "null" : text);
       }
     }},
    {"error.name.all", kNothing,
     [](Answer& out) {
       for (int number = 0; number < 1000; ++number) {
         const char* text = nullptr;
         if (CU(cuGetErrorName, static_cast<CUresult>(number), &text) != CUDA_SUCCESS) continue;
         out(std::to_string(number), text == nullptr ? "null" : text);
       }
     }},
};

}  // namespace

std::span<const Case> InitCases() { return kCases; }

}  // namespace krux::sim::conformance
