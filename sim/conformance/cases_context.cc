// Contexts: primary, others, the stack of current ones, limits, flags.
#include <string>
#include <thread>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

CUcontext MakeContext(Answer& out, unsigned flags = 0) {
  CUcontext context = nullptr;
  out("create", CU(cuCtxCreate, &context, nullptr, flags, 0));
  return context;
}
CUcontext Current() {
  CUcontext context = nullptr;
  CU(cuCtxGetCurrent, &context);
  return context;
}
void GetLimit(Answer& out, CUlimit limit) {
  size_t value = 77;
  const CUresult result = CU(cuCtxGetLimit, &value, limit);
  out("get", result);
  if (result == CUDA_SUCCESS) out("value", value);
}
void SetLimit(Answer& out, CUlimit limit, size_t wanted) {
  size_t before = 0;
  CU(cuCtxGetLimit, &before, limit);
  out("set", CU(cuCtxSetLimit, limit, wanted));
  GetLimit(out, limit);
  CU(cuCtxSetLimit, limit, before);
}
void State(Answer& out) {
  unsigned flags = 77;
  int active = 77;
  out("state", CU(cuDevicePrimaryCtxGetState, 0, &flags, &active));
  out("flags", flags);
  out("active", active);
}

const Case kCases[] = {
    {"context.primary.state-before", kInit, [](Answer& out) { State(out); }, kOwnProcess},
    {"context.primary.state-after", kContext, [](Answer& out) { State(out); }},
    {"context.primary.state-null", kContext,
     [](Answer& out) {
       unsigned flags = 0;
       out("null", CU(cuDevicePrimaryCtxGetState, 0, &flags, nullptr));
       int active = 0;
       out("null-flags", CU(cuDevicePrimaryCtxGetState, 0, nullptr, &active));
       out("bad", CU(cuDevicePrimaryCtxGetState, 1000, &flags, &active));
     }},
    {"context.primary.retain-not-current", kInit,
     [](Answer& out) {
       CUcontext context = nullptr;
       out("retain", CU(cuDevicePrimaryCtxRetain, &context, 0));
       out("current", Current() != nullptr);
     },
     kOwnProcess},
    {"context.primary.retain-same", kContext,
     [](Answer& out) {
       CUcontext again = nullptr;
       out("retain", CU(cuDevicePrimaryCtxRetain, &again, 0));
       out("same", again == PrimaryContext());
       out("release", CU(cuDevicePrimaryCtxRelease, 0));
     }},
    {"context.primary.retain-bad", kContext,
     [](Answer& out) {
       CUcontext context = nullptr;
       out("null", CU(cuDevicePrimaryCtxRetain, nullptr, 0));
       out("bad", CU(cuDevicePrimaryCtxRetain, &context, 1000));
       out("negative", CU(cuDevicePrimaryCtxRetain, &context, -1));
     }},
    {"context.primary.release-unretained", kInit,
     [](Answer& out) { out(CU(cuDevicePrimaryCtxRelease, 0)); }, kOwnProcess},
    {"context.primary.release-last", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       out("release", CU(cuDevicePrimaryCtxRelease, 0));
       out("current-stays", Current() == PrimaryContext());
       State(out);
       out("alloc", CU(cuMemAlloc, &pointer, 4096));
       out("sync", CU(cuCtxSynchronize));
       out("release-again", CU(cuDevicePrimaryCtxRelease, 0));
     },
     kOwnProcess},
    {"context.primary.release-and-retain", kContext,
     [](Answer& out) {
       out("release", CU(cuDevicePrimaryCtxRelease, 0));
       CUcontext again = nullptr;
       out("retain", CU(cuDevicePrimaryCtxRetain, &again, 0));
       out("same", again == PrimaryContext());
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAlloc, &pointer, 4096));
     },
     kOwnProcess},
    {"context.primary.reset", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       out("reset", CU(cuDevicePrimaryCtxReset, 0));
       State(out);
       out("sync", CU(cuCtxSynchronize));
       out("free", CU(cuMemFree, pointer));
       CUcontext again = nullptr;
       out("retain", CU(cuDevicePrimaryCtxRetain, &again, 0));
       out("same", again == PrimaryContext());
     },
     kOwnProcess},
    {"context.primary.set-flags-active", kContext,
     [](Answer& out) {
       out("set", CU(cuDevicePrimaryCtxSetFlags, 0, unsigned{CU_CTX_SCHED_BLOCKING_SYNC}));
       State(out);
     },
     kOwnProcess},
    {"context.primary.set-flags-before", kInit,
     [](Answer& out) {
       out("set", CU(cuDevicePrimaryCtxSetFlags, 0, unsigned{CU_CTX_SCHED_SPIN}));
       State(out);
       out("bad-flags", CU(cuDevicePrimaryCtxSetFlags, 0, 0x40000000U));
       out("two-schedules", CU(cuDevicePrimaryCtxSetFlags, 0, 3U));
       out("bad-device", CU(cuDevicePrimaryCtxSetFlags, 1000, 0U));
     },
     kOwnProcess},
    {"context.primary.destroy", kContext,
     [](Answer& out) { out(CU(cuCtxDestroy, PrimaryContext())); }, kOwnProcess},
    {"context.create.current", kContext,
     [](Answer& out) {
       CUcontext made = MakeContext(out);
       out("current", Current() == made);
       out("destroy", CU(cuCtxDestroy, made));
       out("back", Current() == PrimaryContext());
     },
     kOwnProcess},
    {"context.create.bad", kContext,
     [](Answer& out) {
       CUcontext context = nullptr;
       out("null", CU(cuCtxCreate, nullptr, nullptr, 0U, 0));
       out("device", CU(cuCtxCreate, &context, nullptr, 0U, 1000));
       out("flags", CU(cuCtxCreate, &context, nullptr, 0x40000000U, 0));
     },
     kOwnProcess},
    {"context.create.push-pop", kContext,
     [](Answer& out) {
       CUcontext made = MakeContext(out);
       CUcontext popped = nullptr;
       out("pop", CU(cuCtxPopCurrent, &popped));
       out("popped", popped == made);
       out("current", Current() == PrimaryContext());
       out("push", CU(cuCtxPushCurrent, made));
       out("push-again", CU(cuCtxPushCurrent, made));
       out("pop-null-out", CU(cuCtxPopCurrent, nullptr));
       out("current-2", Current() == made);
     },
     kOwnProcess},
    {"context.create.destroy-not-top", kContext,
     [](Answer& out) {
       CUcontext made = MakeContext(out);
       CU(cuCtxPushCurrent, PrimaryContext());
       out("destroy", CU(cuCtxDestroy, made));
       out("current", Current() == PrimaryContext());
       CUcontext popped = nullptr;
       out("pop", CU(cuCtxPopCurrent, &popped));
       out("current-is-dead", Current() == made);
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAlloc, &pointer, 4096));
     },
     kOwnProcess},
    {"context.create.destroy-elsewhere", kContext,
     [](Answer& out) {
       CUcontext made = MakeContext(out);
       std::thread([made] { CU(cuCtxDestroy, made); }).join();
       out("current-is-dead", Current() == made);
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAlloc, &pointer, 4096));
       out("sync", CU(cuCtxSynchronize));
     },
     kOwnProcess},
    {"context.pop-to-empty", kContext,
     [](Answer& out) {
       CUcontext popped = nullptr;
       out("pop", CU(cuCtxPopCurrent, &popped));
       out("current", Current() == nullptr);
       out("pop-empty", CU(cuCtxPopCurrent, &popped));
       out("sync", CU(cuCtxSynchronize));
     },
     kOwnProcess},
    {"context.push-null", kContext, [](Answer& out) { out(CU(cuCtxPushCurrent, nullptr)); },
     kOwnProcess},
    {"context.destroy-null", kContext, [](Answer& out) { out(CU(cuCtxDestroy, nullptr)); }},
    {"context.set-null", kContext,
     [](Answer& out) {
       out("set", CU(cuCtxSetCurrent, nullptr));
       out("current", Current() == nullptr);
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAlloc, &pointer, 4096));
       CUdevice device = 0;
       out("device", CU(cuCtxGetDevice, &device));
     },
     kOwnProcess},
    {"context.current-null-out", kContext, [](Answer& out) { out(CU(cuCtxGetCurrent, nullptr)); }},
    {"context.other-thread", kContext,
     [](Answer& out) {
       CUcontext current = PrimaryContext();
       CUdeviceptr pointer = 0;
       CUresult allocated = CUDA_SUCCESS;
       std::thread([&] {
         current = Current();
         allocated = CU(cuMemAlloc, &pointer, 4096);
       }).join();
       out("current", current == nullptr ? "null" : "set");
       out("alloc", allocated);
     }},
    {"context.device", kContext,
     [](Answer& out) {
       CUdevice device = 77;
       out("result", CU(cuCtxGetDevice, &device));
       out("device", device);
       out("null", CU(cuCtxGetDevice, nullptr));
     }},
    {"context.flags", kContext,
     [](Answer& out) {
       unsigned flags = 77;
       out("result", CU(cuCtxGetFlags, &flags));
       out("flags", flags);
       out("null", CU(cuCtxGetFlags, nullptr));
       out("set", CU(cuCtxSetFlags, unsigned{CU_CTX_SCHED_YIELD}));
       CU(cuCtxGetFlags, &flags);
       out("after", flags);
       out("bad", CU(cuCtxSetFlags, 0x40000000U));
     },
     kOwnProcess},
    {"context.api-version", kContext,
     [](Answer& out) {
       unsigned version = 0;
       out("primary", CU(cuCtxGetApiVersion, PrimaryContext(), &version));
       out("version", version);
       out("null-context", CU(cuCtxGetApiVersion, nullptr, &version));
       out("version-2", version);
       out("null", CU(cuCtxGetApiVersion, PrimaryContext(), nullptr));
     }},
    {"context.id", kContext,
     [](Answer& out) {
       unsigned long long id = 0;
       out("result", CU(cuCtxGetId, PrimaryContext(), &id));
       out("current", CU(cuCtxGetId, nullptr, &id));
       out("null", CU(cuCtxGetId, PrimaryContext(), nullptr));
     }},
    {"context.priorities", kContext,
     [](Answer& out) {
       int least = 77;
       int greatest = 77;
       out("result", CU(cuCtxGetStreamPriorityRange, &least, &greatest));
       out("least", least);
       out("greatest", greatest);
       out("nulls", CU(cuCtxGetStreamPriorityRange, nullptr, nullptr));
     }},
    {"context.cache-config", kContext,
     [](Answer& out) {
       CUfunc_cache config = CU_FUNC_CACHE_PREFER_L1;
       out("get", CU(cuCtxGetCacheConfig, &config));
       out("value", static_cast<int>(config));
       out("set", CU(cuCtxSetCacheConfig, CU_FUNC_CACHE_PREFER_SHARED));
       CU(cuCtxGetCacheConfig, &config);
       out("after", static_cast<int>(config));
       CU(cuCtxSetCacheConfig, CU_FUNC_CACHE_PREFER_NONE);
       out("bad", CU(cuCtxSetCacheConfig, Odd<CUfunc_cache>(77)));
       out("null", CU(cuCtxGetCacheConfig, nullptr));
     }},
    {"context.shared-config", kContext,
     [](Answer& out) {
       CUsharedconfig config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
       out("get", CU(cuCtxGetSharedMemConfig, &config));
       out("value", static_cast<int>(config));
     }},
    {"context.limit.stack", kContext, [](Answer& out) { GetLimit(out, CU_LIMIT_STACK_SIZE); }},
    {"context.limit.printf", kContext,
     [](Answer& out) { GetLimit(out, CU_LIMIT_PRINTF_FIFO_SIZE); }},
    {"context.limit.heap", kContext, [](Answer& out) { GetLimit(out, CU_LIMIT_MALLOC_HEAP_SIZE); }},
    {"context.limit.depth", kContext,
     [](Answer& out) { GetLimit(out, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH); }},
    {"context.limit.pending", kContext,
     [](Answer& out) { GetLimit(out, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT); }},
    {"context.limit.l2-fetch", kContext,
     [](Answer& out) { GetLimit(out, CU_LIMIT_MAX_L2_FETCH_GRANULARITY); }},
    {"context.limit.l2-persist", kContext,
     [](Answer& out) { GetLimit(out, CU_LIMIT_PERSISTING_L2_CACHE_SIZE); }},
    {"context.limit.shared-memory", kContext,
     [](Answer& out) { GetLimit(out, CU_LIMIT_SHMEM_SIZE); }},
    {"context.limit.bad", kContext,
     [](Answer& out) {
       size_t value = 0;
       out("large", CU(cuCtxGetLimit, &value, Odd<CUlimit>(500)));
       out("set", CU(cuCtxSetLimit, Odd<CUlimit>(500), 1));
       out("null", CU(cuCtxGetLimit, nullptr, CU_LIMIT_STACK_SIZE));
     }},
    {"context.limit.set-stack", kContext,
     [](Answer& out) { SetLimit(out, CU_LIMIT_STACK_SIZE, 2000); }, kOwnProcess},
    {"context.limit.set-stack-zero", kContext,
     [](Answer& out) { SetLimit(out, CU_LIMIT_STACK_SIZE, 0); }, kOwnProcess},
    {"context.limit.set-printf", kContext,
     [](Answer& out) { SetLimit(out, CU_LIMIT_PRINTF_FIFO_SIZE, 3000000); }, kOwnProcess},
    {"context.limit.set-heap", kContext,
     [](Answer& out) { SetLimit(out, CU_LIMIT_MALLOC_HEAP_SIZE, 20000001); }, kOwnProcess},
    {"context.limit.set-l2-fetch", kContext,
     [](Answer& out) { SetLimit(out, CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 128); }, kOwnProcess},
    {"context.limit.set-l2-fetch-large", kContext,
     [](Answer& out) { SetLimit(out, CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 4096); }, kOwnProcess},
    {"context.limit.set-pending", kContext,
     [](Answer& out) { SetLimit(out, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 4096); },
     kOwnProcess},
    {"context.limit.set-depth", kContext,
     [](Answer& out) { SetLimit(out, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 4); }, kOwnProcess},
    {"context.l2-reset", kContext, [](Answer& out) { out(CU(cuCtxResetPersistingL2Cache)); }},
    {"context.affinity", kContext,
     [](Answer& out) {
       CUexecAffinityParam parameter{};
       out("result", CU(cuCtxGetExecAffinity, &parameter, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
     }},
    {"context.peer.self", kContext,
     [](Answer& out) {
       out("enable", CU(cuCtxEnablePeerAccess, PrimaryContext(), 0U));
       out("disable", CU(cuCtxDisablePeerAccess, PrimaryContext()));
       out("null", CU(cuCtxEnablePeerAccess, nullptr, 0U));
       out("flags", CU(cuCtxEnablePeerAccess, PrimaryContext(), 1U));
     }},
    {"context.attach", kContext,
     [](Answer& out) {
       CUcontext context = nullptr;
       out("attach", CU(cuCtxAttach, &context, 0U));
       out("same", context == PrimaryContext());
     },
     kOwnProcess},
    {"context.record-event", kContext,
     [](Answer& out) {
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       out("record", CU(cuCtxRecordEvent, PrimaryContext(), event));
       out("wait", CU(cuCtxWaitEvent, PrimaryContext(), event));
       CU(cuEventDestroy, event);
     }},
};

}  // namespace

std::span<const Case> ContextCases() { return kCases; }

}  // namespace krux::sim::conformance
