// cuGetProcAddress, v1 and v2, by version and flags; and against dlsym.
#include <iterator>
#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

// Result, status and, of `exported` names, the one whose address came.
void Look(Answer& out, const char* name, int version, cuuint64_t flags,
          std::initializer_list<const char*> exported) {
  void* address = reinterpret_cast<void*>(8);
  auto status = Odd<CUdriverProcAddressQueryResult>(77);
  out("result", CU(cuGetProcAddress, name, &address, version, flags, &status));
  out("status", static_cast<int>(status));
  std::string same = address == nullptr ? "null" : "another";
  for (const char* candidate : exported) {
    if (address != nullptr && address == DriverSymbol(candidate)) same = candidate;
  }
  out("address", same);
}

using OldLookup = CUresult (*)(const char*, void**, int, cuuint64_t);

const Case kCases[] = {
    {"lookup.alloc.v2000", kInit,
     [](Answer& out) { Look(out, "cuMemAlloc", 2000, 0, {"cuMemAlloc", "cuMemAlloc_v2"}); }},
    {"lookup.alloc.v3020", kInit,
     [](Answer& out) { Look(out, "cuMemAlloc", 3020, 0, {"cuMemAlloc", "cuMemAlloc_v2"}); }},
    {"lookup.alloc.v13000", kInit,
     [](Answer& out) { Look(out, "cuMemAlloc", 13000, 0, {"cuMemAlloc", "cuMemAlloc_v2"}); }},
    {"lookup.alloc.suffixed", kInit,
     [](Answer& out) { Look(out, "cuMemAlloc_v2", 12000, 0, {"cuMemAlloc_v2"}); }},
    {"lookup.launch.legacy", kInit,
     [](Answer& out) {
       Look(out, "cuLaunchKernel", 12000, kLegacy, {"cuLaunchKernel", "cuLaunchKernel_ptsz"});
     }},
    {"lookup.launch.per-thread", kInit,
     [](Answer& out) {
       Look(out, "cuLaunchKernel", 12000, kPerThread, {"cuLaunchKernel", "cuLaunchKernel_ptsz"});
     }},
    {"lookup.launch.per-thread-too-old", kInit,
     [](Answer& out) {
       Look(out, "cuLaunchKernel", 6000, kPerThread, {"cuLaunchKernel", "cuLaunchKernel_ptsz"});
     }},
    {"lookup.launch.too-old", kInit,
     [](Answer& out) {
       Look(out, "cuLaunchKernel", 3000, 0, {"cuLaunchKernel", "cuLaunchKernel_ptsz"});
     }},
    {"lookup.suffix-ptsz", kInit,
     [](Answer& out) { Look(out, "cuLaunchKernel_ptsz", 12000, 0, {"cuLaunchKernel_ptsz"}); }},
    {"lookup.copy.per-thread", kInit,
     [](Answer& out) {
       Look(out, "cuMemcpyHtoD", 12000, kPerThread,
            {"cuMemcpyHtoD", "cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"});
     }},
    {"lookup.copy.per-thread-3020", kInit,
     [](Answer& out) {
       Look(out, "cuMemcpyHtoD", 3020, kPerThread,
            {"cuMemcpyHtoD", "cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"});
     }},
    {"lookup.no-stream.per-thread", kInit,
     [](Answer& out) { Look(out, "cuDeviceGet", 12000, kPerThread, {"cuDeviceGet"}); }},
    {"lookup.flags.both", kInit,
     [](Answer& out) {
       Look(out, "cuLaunchKernel", 12000, kLegacy | kPerThread,
            {"cuLaunchKernel", "cuLaunchKernel_ptsz"});
     }},
    {"lookup.flags.unknown", kInit,
     [](Answer& out) {
       Look(out, "cuLaunchKernel", 12000, 64, {"cuLaunchKernel", "cuLaunchKernel_ptsz"});
     }},
    {"lookup.unknown-name", kInit, [](Answer& out) { Look(out, "cuNoSuchCall", 12000, 0, {}); }},
    {"lookup.empty-name", kInit, [](Answer& out) { Look(out, "", 12000, 0, {}); }},
    {"lookup.runtime-name", kInit, [](Answer& out) { Look(out, "cudaMalloc", 12000, 0, {}); }},
    {"lookup.null-name", kInit, [](Answer& out) { Look(out, nullptr, 12000, 0, {}); }},
    {"lookup.null-address", kInit,
     [](Answer& out) { out(CU(cuGetProcAddress, "cuInit", nullptr, 12000, 0U, nullptr)); }},
    {"lookup.null-status", kInit,
     [](Answer& out) {
       void* address = nullptr;
       out("found", CU(cuGetProcAddress, "cuInit", &address, 12000, 0U, nullptr));
       out("missing", CU(cuGetProcAddress, "cuNone", &address, 12000, 0U, nullptr));
       out("null", address == nullptr);
     }},
    {"lookup.version.zero", kInit, [](Answer& out) { Look(out, "cuInit", 0, 0, {"cuInit"}); }},
    {"lookup.version.negative", kInit, [](Answer& out) { Look(out, "cuInit", -1, 0, {"cuInit"}); }},
    {"lookup.version.future", kInit,
     [](Answer& out) { Look(out, "cuInit", 99000, 0, {"cuInit"}); }},
    {"lookup.version.next", kInit,
     [](Answer& out) {
       for (const int version : {13000, 13010, 13020, 13999, 14000}) {
         Look(out, "cuInit", version, 0, {"cuInit"});
       }
     }},
    {"lookup.version.too-old-for-name", kInit,
     [](Answer& out) { Look(out, "cuMemAllocAsync", 11010, 0, {"cuMemAllocAsync"}); }},
    {"lookup.version.first-of-name", kInit,
     [](Answer& out) { Look(out, "cuMemAllocAsync", 11020, 0, {"cuMemAllocAsync"}); }},
    {"lookup.itself.v11030", kInit,
     [](Answer& out) {
       Look(out, "cuGetProcAddress", 11030, 0, {"cuGetProcAddress", "cuGetProcAddress_v2"});
     }},
    {"lookup.itself.v12000", kInit,
     [](Answer& out) {
       Look(out, "cuGetProcAddress", 12000, 0, {"cuGetProcAddress", "cuGetProcAddress_v2"});
     }},
    {"lookup.context-create.11030", kInit,
     [](Answer& out) {
       Look(out, "cuCtxCreate", 11030, 0,
            {"cuCtxCreate", "cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4"});
     }},
    {"lookup.context-create.11040", kInit,
     [](Answer& out) {
       Look(out, "cuCtxCreate", 11040, 0,
            {"cuCtxCreate", "cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4"});
     }},
    {"lookup.context-create.12050", kInit,
     [](Answer& out) {
       Look(out, "cuCtxCreate", 12050, 0,
            {"cuCtxCreate", "cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4"});
     }},
    {"lookup.context-create.13000", kInit,
     [](Answer& out) {
       Look(out, "cuCtxCreate", 13000, 0,
            {"cuCtxCreate", "cuCtxCreate_v2", "cuCtxCreate_v3", "cuCtxCreate_v4"});
     }},
    {"lookup.capture-info.by-version", kInit,
     [](Answer& out) {
       for (const int version : {10000, 10010, 11030, 12030, 13000}) {
         Look(out, "cuStreamGetCaptureInfo", version, 0,
              {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", "cuStreamGetCaptureInfo_v3"});
       }
     }},
    {"lookup.instantiate.by-version", kInit,
     [](Answer& out) {
       for (const int version : {10000, 11000, 11040, 12000, 13000}) {
         Look(out, "cuGraphInstantiate", version, 0,
              {"cuGraphInstantiate", "cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags"});
       }
     }},
    {"lookup.uuid.by-version", kInit,
     [](Answer& out) {
       for (const int version : {9000, 9020, 11030, 11040, 13000}) {
         Look(out, "cuDeviceGetUuid", version, 0, {"cuDeviceGetUuid", "cuDeviceGetUuid_v2"});
       }
     }},
    {"lookup.v1.found", kInit,
     [](Answer& out) {
       auto lookup = reinterpret_cast<OldLookup>(DriverSymbol("cuGetProcAddress"));
       void* address = nullptr;
       out("result", lookup("cuMemAlloc", &address, 11030, 0));
       out("v2", address == DriverSymbol("cuMemAlloc_v2"));
     }},
    {"lookup.v1.missing", kInit,
     [](Answer& out) {
       auto lookup = reinterpret_cast<OldLookup>(DriverSymbol("cuGetProcAddress"));
       void* address = reinterpret_cast<void*>(8);
       out("result", lookup("cuNone", &address, 11030, 0));
       out("null", address == nullptr);
       out("too-old", lookup("cuMemAllocAsync", &address, 11000, 0));
     }},
    {"lookup.exports.generations", kNothing,
     [](Answer& out) {
       for (const char* name : {"cuCtxCreate_v4",
                                "cuEventElapsedTime_v2",
                                "cuMemAdvise_v2",
                                "cuStreamGetCtx_v2",
                                "cuMemcpyBatchAsync_v2",
                                "cuGraphGetEdges_v2",
                                "cuCheckpointProcessLock",
                                "cuLogsRegisterCallback",
                                "cuGreenCtxCreate",
                                "cuDevSmResourceSplitByCount",
                                "cuDeviceGetHostAtomicCapabilities",
                                "cuMemGetDefaultMemPool",
                                "cuGraphAddDependencies_v2",
                                "cuCtxCreate",
                                "cuMemAlloc",
                                "cuGLInit",
                                "cuEGLInit",
                                "cuMulticastCreate",
                                "cuTensorMapEncodeTiled",
                                "cuGetExportTable"}) {
         out(name, DriverSymbol(name) != nullptr);
       }
     }},
};

}  // namespace

std::span<const Case> LookupCases() { return kCases; }

}  // namespace krux::sim::conformance
