// Facts: what things cost on the card, by cuMemGetInfo, by NVML's device and process figures.
// docs/gpu-facts.md is written from the recorded lines.
#include <string>
#include <vector>

#include "sim/conformance/families.h"
#include "sim/conformance/nvml_call.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

constexpr size_t kMiB = 1048576;

// The three figures, and how they moved since the last Say.
class Figures {
 public:
  void Say(Answer& out, std::string_view what) {
    const long long free = static_cast<long long>(FreeBytes());
    const long long device = NvmlUsed();
    const long long process = NvmlUsedBy(getpid());
    out(what, Mib(free_ - free) + "/" + Mib(device - device_) + "/" + Mib(process - process_));
    free_ = free;
    device_ = device;
    process_ = process;
  }

 private:
  long long free_ = static_cast<long long>(FreeBytes());
  long long device_ = NvmlUsed();
  long long process_ = NvmlUsedBy(getpid());
};

// A kernel `k` that uses `bytes` of local memory per thread, whatever the compiler thinks.
std::string LocalKernel(size_t bytes) {
  return ".version 7.0\n.target sm_75\n.address_size 64\n"
         ".visible .entry k(.param .u64 out, .param .u32 idx)\n{\n .local .align 4 .b8 a[" +
         std::to_string(bytes) +
         "];\n .reg .b32 %r<8>; .reg .b64 %d<10>;\n"
         " ld.param.u64 %d1,[out]; ld.param.u32 %r1,[idx];\n"
         " mov.u64 %d2,a; mul.wide.u32 %d3,%r1,4; add.s64 %d4,%d2,%d3;\n"
         " mov.u32 %r3,%tid.x; mul.wide.u32 %d6,%r3,4; add.s64 %d7,%d2,%d6;\n"
         " st.local.u32 [%d7],%r3; st.local.u32 [%d4],%r1; ld.local.u32 %r2,[%d7];\n"
         " cvta.to.global.u64 %d5,%d1; st.global.u32 [%d5],%r2; ret;\n}\n";
}

void LaunchLocal(Answer& out, Figures& figures, size_t bytes) {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  int local = 0;
  out("load", CU(cuModuleLoadData, &module, LocalKernel(bytes).c_str()));
  CU(cuModuleGetFunction, &kernel, module, "k");
  CU(cuFuncGetAttribute, &local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel);
  out("local", local);
  CUdeviceptr pointer = 0;
  CU(cuMemAlloc, &pointer, 4096);
  unsigned index = 1;
  void* parameters[] = {&pointer, &index};
  figures.Say(out, "loaded");
  out("launch", Launch(kernel, nullptr, parameters));
  CU(cuCtxSynchronize);
  figures.Say(out, "launched");
}
void Local(Answer& out, size_t bytes) {
  Figures figures;
  LaunchLocal(out, figures, bytes);
}

void Limit(Answer& out, CUlimit limit, size_t value) {
  Figures figures;
  out("set", CU(cuCtxSetLimit, limit, value));
  figures.Say(out, "set");
  Launch(Kernel("empty"));
  CU(cuCtxSynchronize);
  figures.Say(out, "launched");
}

constexpr char kUsesMalloc[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .b64 result) malloc(.param .b64 bytes);\n"
    ".visible .entry k(.param .u64 out)\n{\n .reg .b64 %d<5>;\n mov.u64 %d1,100;\n"
    " {\n .param .b64 p0; st.param.b64 [p0],%d1; .param .b64 r0;\n"
    " call.uni (r0), malloc, (p0);\n ld.param.b64 %d2,[r0];\n }\n"
    " ld.param.u64 %d3,[out]; cvta.to.global.u64 %d4,%d3; st.global.u64 [%d4],%d2; ret;\n}\n";
constexpr char kUsesPrintf[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 values);\n"
    ".global .align 1 .b8 text[2] = {10, 0};\n"
    ".visible .entry k(.param .u64 out)\n{\n .reg .b64 %d<5>; .reg .b32 %r<3>;\n"
    " mov.u64 %d1,text; cvta.global.u64 %d2,%d1; mov.u64 %d3,0;\n"
    " {\n .param .b64 p0; st.param.b64 [p0],%d2; .param .b64 p1; st.param.b64 [p1],%d3;\n"
    " .param .b32 r0;\n call.uni (r0), vprintf, (p0, p1);\n ld.param.b32 %r1,[r0];\n }\n"
    " ret;\n}\n";

void LoadAndLaunch(Answer& out, const char* image) {
  Figures figures;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  out("load", CU(cuModuleLoadData, &module, image));
  CU(cuModuleGetFunction, &kernel, module, "k");
  figures.Say(out, "loaded");
  CUdeviceptr pointer = 0;
  CU(cuMemAlloc, &pointer, 4096);
  void* parameters[] = {&pointer};
  out("launch", Launch(kernel, nullptr, parameters));
  out("sync", CU(cuCtxSynchronize));
  figures.Say(out, "launched");
}

void Prefetch(Answer& out, size_t bytes) {
  Figures figures;
  CUdeviceptr pointer = 0;
  CU(cuMemAllocManaged, &pointer, bytes, unsigned{CU_MEM_ATTACH_GLOBAL});
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  out("prefetch", CU(cuMemPrefetchAsync, pointer, bytes, location, 0U, nullptr));
  CU(cuCtxSynchronize);
  figures.Say(out, "prefetched");
  CU(cuMemFree, pointer);
  figures.Say(out, "freed");
}

const Case kCases[] = {
    {"fact.context.primary", kNvml,
     [](Answer& out) {
       const long long start = NvmlUsed();
       CU(cuInit, 0U);
       const long long initialized = NvmlUsed();
       out("init-mib", Mib(initialized - start));
       out("listed", NvmlUsedBy(getpid()) >= 0);
       CU(cuCtxSetCurrent, PrimaryContext());
       const long long made = NvmlUsed();
       out("context-mib", Mib(made - initialized));
       out("process-mib", Mib(NvmlUsedBy(getpid())));
       CU(cuDevicePrimaryCtxRelease, 0);
       out("released-device-mib", Mib(NvmlUsed() - start));
       out("released-process-mib", Mib(NvmlUsedBy(getpid())));
       CUcontext again = nullptr;
       CU(cuDevicePrimaryCtxRetain, &again, 0);
       out("again-mib", Mib(NvmlUsed() - start));
     },
     kAlone},
    {"fact.context.second", kBoth,
     [](Answer& out) {
       Figures figures;
       CUcontext context = nullptr;
       out("create", CU(cuCtxCreate, &context, nullptr, 0U, 0));
       figures.Say(out, "second");
       CUcontext third = nullptr;
       CU(cuCtxCreate, &third, nullptr, 0U, 0);
       figures.Say(out, "third");
       CU(cuCtxDestroy, third);
       CU(cuCtxDestroy, context);
       figures.Say(out, "destroyed");
     },
     kAlone},
    {"fact.context.green", kBoth,
     [](Answer& out) {
       CUdevResource whole{};
       CUdevResource part{};
       CUdevResource rest{};
       out("resource", CU(cuDeviceGetDevResource, 0, &whole, CU_DEV_RESOURCE_TYPE_SM));
       out("processors", whole.sm.smCount);
       unsigned groups = 1;
       out("split", CU(cuDevSmResourceSplitByCount, &part, &groups, &whole, &rest, 0U, 16U));
       out("part", part.sm.smCount);
       out("rest", rest.sm.smCount);
       CUdevResourceDesc description = nullptr;
       out("describe", CU(cuDevResourceGenerateDesc, &description, &part, 1U));
       Figures figures;
       CUgreenCtx green = nullptr;
       out("create",
           CU(cuGreenCtxCreate, &green, description, 0, unsigned{CU_GREEN_CTX_DEFAULT_STREAM}));
       figures.Say(out, "green");
       CUcontext context = nullptr;
       out("context", CU(cuCtxFromGreenCtx, &context, green));
       out("destroy", CU(cuGreenCtxDestroy, green));
       figures.Say(out, "destroyed");
     },
     kAlone},
    {"fact.context.first-stream-and-launch", kBoth,
     [](Answer& out) {
       Figures figures;
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
       figures.Say(out, "stream");
       Kernel("empty");
       figures.Say(out, "module");
       Launch(Kernel("empty"), stream);
       CU(cuCtxSynchronize);
       figures.Say(out, "launch");
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       CU(cuEventRecord, event, stream);
       figures.Say(out, "event");
       CUdeviceptr pointer = 0;
       CU(cuMemAllocAsync, &pointer, 1, stream);
       figures.Say(out, "pool");
     },
     kAlone},
    {"fact.local.1k", kBoth, [](Answer& out) { Local(out, 1024); }, kAlone},
    {"fact.local.2k", kBoth, [](Answer& out) { Local(out, 2048); }, kAlone},
    {"fact.local.4k", kBoth, [](Answer& out) { Local(out, 4096); }, kAlone},
    {"fact.local.8k", kBoth, [](Answer& out) { Local(out, 8192); }, kAlone},
    {"fact.local.12000", kBoth, [](Answer& out) { Local(out, 12000); }, kAlone},
    {"fact.local.32k", kBoth, [](Answer& out) { Local(out, 32768); }, kAlone},
    {"fact.local.128k", kBoth, [](Answer& out) { Local(out, 131072); }, kAlone},
    {"fact.local.500k", kBoth, [](Answer& out) { Local(out, 512000); }, kAlone},
    {"fact.local.512k", kBoth, [](Answer& out) { Local(out, 524288); }, kAlone},
    {"fact.local.sequence", kBoth,
     [](Answer& out) {
       Figures figures;
       for (const size_t bytes : {size_t{8192}, size_t{4096}, size_t{8192}, size_t{16384}}) {
         LaunchLocal(out, figures, bytes);
       }
       CUmodule module = nullptr;
       CU(cuModuleLoadData, &module, LocalKernel(1024).c_str());
       CU(cuModuleUnload, module);
       figures.Say(out, "unloaded");
     },
     kAlone},
    {"fact.local.per-context", kBoth,
     [](Answer& out) {
       CUcontext context = nullptr;
       CU(cuCtxCreate, &context, nullptr, 0U, 0);
       Figures figures;
       LaunchLocal(out, figures, 8192);
       CU(cuCtxDestroy, context);
       CU(cuCtxSetCurrent, PrimaryContext());
       figures.Say(out, "destroyed");
     },
     kAlone},
    {"fact.limit.stack-8k", kBoth, [](Answer& out) { Limit(out, CU_LIMIT_STACK_SIZE, 8192); },
     kAlone},
    {"fact.limit.stack-64k", kBoth, [](Answer& out) { Limit(out, CU_LIMIT_STACK_SIZE, 65536); },
     kAlone},
    {"fact.limit.heap-256m", kBoth,
     [](Answer& out) { Limit(out, CU_LIMIT_MALLOC_HEAP_SIZE, 256 * kMiB); }, kAlone},
    {"fact.limit.printf-64m", kBoth,
     [](Answer& out) { Limit(out, CU_LIMIT_PRINTF_FIFO_SIZE, 64 * kMiB); }, kAlone},
    {"fact.module.global-64m", kBoth,
     [](Answer& out) {
       Figures figures;
       CUmodule module = nullptr;
       out("load", CU(cuModuleLoadData, &module,
                      ".version 7.0\n.target sm_75\n.address_size 64\n"
                      ".visible .global .align 4 .b8 big[67108864];\n"
                      ".visible .entry e()\n{\n ret;\n}\n"));
       figures.Say(out, "loaded");
       CUfunction kernel = nullptr;
       CU(cuModuleGetFunction, &kernel, module, "e");
       figures.Say(out, "function");
       Launch(kernel);
       CU(cuCtxSynchronize);
       figures.Say(out, "launched");
       CU(cuModuleUnload, module);
       figures.Say(out, "unloaded");
     },
     kAlone},
    {"fact.module.hundred", kBoth,
     [](Answer& out) {
       Figures figures;
       std::vector<CUmodule> modules(100);
       for (CUmodule& module : modules) {
         CU(cuModuleLoadData, &module,
            ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry e()\n{\n ret;\n}\n");
         CUfunction kernel = nullptr;
         CU(cuModuleGetFunction, &kernel, module, "e");
         Launch(kernel);
       }
       CU(cuCtxSynchronize);
       figures.Say(out, "loaded");
       for (CUmodule module : modules) CU(cuModuleUnload, module);
       figures.Say(out, "unloaded");
     },
     kAlone},
    {"fact.module.uses-malloc", kBoth, [](Answer& out) { LoadAndLaunch(out, kUsesMalloc); },
     kAlone},
    {"fact.module.uses-printf", kBoth, [](Answer& out) { LoadAndLaunch(out, kUsesPrintf); },
     kAlone},
    {"fact.streams", kBoth,
     [](Answer& out) {
       Figures figures;
       int made = 0;
       for (const int until : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
         for (; made < until; ++made) {
           CUstream stream = nullptr;
           CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
         }
         figures.Say(out, std::to_string(until));
       }
     },
     kAlone},
    {"fact.streams.used", kBoth,
     [](Answer& out) {
       Kernel("empty");
       Figures figures;
       for (int i = 0; i < 8; ++i) {
         CUstream stream = nullptr;
         CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
         Launch(Kernel("empty"), stream);
       }
       CU(cuCtxSynchronize);
       figures.Say(out, "8");
     },
     kAlone},
    {"fact.managed.prefetch-2m", kBoth, [](Answer& out) { Prefetch(out, 2 * kMiB); }, kAlone},
    {"fact.managed.prefetch-64m", kBoth, [](Answer& out) { Prefetch(out, 64 * kMiB); }, kAlone},
    {"fact.managed.prefetch-200m", kBoth, [](Answer& out) { Prefetch(out, 200 * kMiB); }, kAlone},
    {"fact.managed.touched", kBoth,
     [](Answer& out) {
       Figures figures;
       CUdeviceptr pointer = 0;
       CU(cuMemAllocManaged, &pointer, 256 * kMiB, unsigned{CU_MEM_ATTACH_GLOBAL});
       figures.Say(out, "allocated");
       CU(cuMemsetD8, pointer, static_cast<unsigned char>(1), 256 * kMiB);
       CU(cuCtxSynchronize);
       figures.Say(out, "touched");
       CU(cuMemFree, pointer);
       figures.Say(out, "freed");
     },
     kAlone},
    {"fact.families.64m", kBoth,
     [](Answer& out) {
       Figures figures;
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64 * kMiB);
       figures.Say(out, "linear");
       CU(cuMemAllocAsync, &pointer, 64 * kMiB, nullptr);
       CU(cuStreamSynchronize, nullptr);
       figures.Say(out, "pool");
       CUmemAllocationProp properties{};
       properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
       properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
       CUmemGenericAllocationHandle handle = 0;
       CU(cuMemCreate, &handle, 64 * kMiB, &properties, 0U);
       figures.Say(out, "virtual");
       CUDA_ARRAY3D_DESCRIPTOR shape{};
       shape.Width = shape.Height = 4096;
       shape.Format = CU_AD_FORMAT_FLOAT;
       shape.NumChannels = 1;
       CUarray array = nullptr;
       CU(cuArray3DCreate, &array, &shape);
       figures.Say(out, "array");
       void* host = nullptr;
       CU(cuMemAllocHost, &host, 64 * kMiB);
       figures.Say(out, "host");
     },
     kAlone},
    {"fact.release.async-free", kBoth,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAllocAsync, &pointer, 64 * kMiB, nullptr);
       CU(cuStreamSynchronize, nullptr);
       Figures figures;
       CU(cuMemFreeAsync, pointer, nullptr);
       figures.Say(out, "freed");
       CU(cuStreamSynchronize, nullptr);
       figures.Say(out, "synchronized");
     },
     kAlone},
    {"fact.fork.memory-held", kNvml,
     [](Answer& out) {
       const long long before = NvmlUsed();
       out("helper", RunHelper("fork-held"));
       out("left-mib", Mib(NvmlUsed() - before));
     },
     kAlone},
    {"fact.process.exit-releases", kNvml,
     [](Answer& out) {
       const long long before = NvmlUsed();
       out("helper", RunHelper("exit-holding"));
       out("left-mib", Mib(NvmlUsed() - before));
     },
     kAlone},
};

}  // namespace

std::span<const Case> FactCases() { return kCases; }

}  // namespace krux::sim::conformance
