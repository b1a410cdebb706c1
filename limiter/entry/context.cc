// Contexts: what one takes is reserved before it is made, and settled by the agent.
#include "limiter/entry/entry.h"
#include "limiter/life/log.h"

namespace {

using namespace krux::limiter;

uint64_t ContextBytes(uint32_t gpu) {
  return Product(Self().limits->gpus[gpu].context_mib.load(std::memory_order_acquire), kMebibyte);
}

template <typename Call>
CUresult MakeContext(CUdevice device, CUcontext* context, Call call) {
  Process& self = Self();
  const uint32_t gpu = self.devices.GpuOf(device);
  if (gpu == Devices::kNotGranted) return CUDA_ERROR_NOT_PERMITTED;
  const uint64_t bytes = ContextBytes(gpu);
  if (!self.contexts.Reserve(gpu, bytes)) {
    LogLine("no room for a CUDA context: it takes %llu MiB, %llu of %llu MiB are in use",
            static_cast<unsigned long long>(bytes / kMebibyte),
            static_cast<unsigned long long>(self.account.Used(gpu) / kMebibyte),
            static_cast<unsigned long long>(self.account.Limit(gpu) / kMebibyte));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    self.contexts.Unreserve(gpu, bytes);
    return result;
  }
  self.contexts.OnMade(reinterpret_cast<uint64_t>(*context), gpu);
  self.link.Send(krux::wire::EventKind::kContextMade, gpu, 0);
  return CUDA_SUCCESS;
}

bool PrimaryIsActive(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  return Real().cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

// The driver has freed all that belonged to the context.
void OnContextGone(uint64_t context) {
  Process& self = Self();
  if (!self.contexts.OnGone(context)) return;
  self.allocations.ReturnAllOf(context);
  self.streams.OnContextGone(reinterpret_cast<CUcontext>(context));
  self.pools.SettleAll();
  self.known_functions.Forget();
  if (self.graph_memory.any()) self.graph_memory.SettleAll();
}

template <typename Call>
CUresult EndPrimary(CUdevice device, Call call) {
  const CUresult result = call();
  const uint32_t gpu = Self().devices.GpuOf(device);
  if (result != CUDA_SUCCESS || gpu == Devices::kNotGranted || PrimaryIsActive(device)) {
    return result;
  }
  OnContextGone(Self().contexts.Primary(gpu));
  return result;
}

template <typename Call>
CUresult EndContext(CUcontext context, Call call) {
  const CUresult result = call();
  if (result == CUDA_SUCCESS) OnContextGone(reinterpret_cast<uint64_t>(context));
  return result;
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const auto call = [&] { return Real().cuDevicePrimaryCtxRetain(context, device); };
  const EntryGuard guard;
  if (!guard.active() || context == nullptr) return call();
  static Lock retain_lock;  // two threads must not both find it inactive
  const LockGuard retain_guard(retain_lock);
  const uint32_t gpu = Self().devices.GpuOf(device);
  if (gpu == Devices::kNotGranted) return CUDA_ERROR_NOT_PERMITTED;
  if (Self().contexts.Primary(gpu) != 0) return call();
  const CUresult result = MakeContext(device, context, call);
  if (result == CUDA_SUCCESS) {
    Self().contexts.SetPrimary(gpu, reinterpret_cast<uint64_t>(*context));
  }
  return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuDevicePrimaryCtxRelease(device);
  return EndPrimary(device, [&] { return Real().cuDevicePrimaryCtxRelease(device); });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuDevicePrimaryCtxRelease_v2(device);
  return EndPrimary(device, [&] { return Real().cuDevicePrimaryCtxRelease_v2(device); });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuDevicePrimaryCtxReset(device);
  return EndPrimary(device, [&] { return Real().cuDevicePrimaryCtxReset(device); });
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuDevicePrimaryCtxReset_v2(device);
  return EndPrimary(device, [&] { return Real().cuDevicePrimaryCtxReset_v2(device); });
}

CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  const auto call = [&] { return Real().cuCtxCreate(context, flags, device); };
  const EntryGuard guard;
  if (!guard.active() || context == nullptr) return call();
  return MakeContext(device, context, call);
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  const auto call = [&] { return Real().cuCtxCreate_v2(context, flags, device); };
  const EntryGuard guard;
  if (!guard.active() || context == nullptr) return call();
  return MakeContext(device, context, call);
}

CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* parameters, int count,
                        unsigned int flags, CUdevice device) {
  const auto call = [&] {
    return Real().cuCtxCreate_v3(context, parameters, count, flags, device);
  };
  const EntryGuard guard;
  if (!guard.active() || context == nullptr) return call();
  return MakeContext(device, context, call);
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned int flags,
                        CUdevice device) {
  const auto call = [&] { return Real().cuCtxCreate_v4(context, parameters, flags, device); };
  const EntryGuard guard;
  if (!guard.active() || context == nullptr) return call();
  return MakeContext(device, context, call);
}

CUresult cuCtxDestroy(CUcontext context) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuCtxDestroy(context);
  return EndContext(context, [&] { return Real().cuCtxDestroy(context); });
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuCtxDestroy_v2(context);
  return EndContext(context, [&] { return Real().cuCtxDestroy_v2(context); });
}

namespace {

// The driver resizes local memory at once, also downwards: functions are looked at again then.
template <typename Call>
CUresult SetStack(uint32_t gpu, size_t value, Call call) {
  Process& self = Self();
  bool grown = false;
  if (!LocalBytesFit(gpu, value, &grown)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) return result;
  LowerLocalBytes(gpu, value);
  self.known_functions.Forget();
  return result;
}

}  // namespace

// Heaps and stacks that a later launch will take from the card: charged when they are asked for.
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  const auto call = [&] { return Real().cuCtxSetLimit(limit, value); };
  const EntryGuard guard;
  const uint32_t gpu = guard.active() ? Self().devices.CurrentGpu() : Devices::kNotGranted;
  if (gpu == Devices::kNotGranted) return call();
  if (limit == CU_LIMIT_STACK_SIZE) return SetStack(gpu, value, call);
  size_t before = 0;
  if ((limit != CU_LIMIT_PRINTF_FIFO_SIZE && limit != CU_LIMIT_MALLOC_HEAP_SIZE) ||
      Real().cuCtxGetLimit(&before, limit) != CUDA_SUCCESS || value <= before) {
    return call();
  }
  // The driver keeps two of the first kind.
  const uint64_t copies = limit == CU_LIMIT_PRINTF_FIFO_SIZE ? 2 : 1;
  const uint64_t growth = OwnBytes(Product(value - before, copies));
  if (!Self().contexts.Reserve(gpu, growth)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) Self().contexts.Unreserve(gpu, growth);
  return result;
}

CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc resources, CUdevice device,
                          unsigned int flags) {
  const auto call = [&] { return Real().cuGreenCtxCreate(context, resources, device, flags); };
  const EntryGuard guard;
  const uint32_t gpu = guard.active() ? Self().devices.GpuOf(device) : Devices::kNotGranted;
  if (gpu == Devices::kNotGranted) return call();
  if (!Self().contexts.Reserve(gpu, kGreenContextBytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) Self().contexts.Unreserve(gpu, kGreenContextBytes);
  return result;
}

CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  const EntryGuard guard;
  const CUresult result = Real().cuGreenCtxDestroy(context);
  const uint32_t gpu = guard.active() ? Self().devices.CurrentGpu() : Devices::kNotGranted;
  if (result == CUDA_SUCCESS && gpu != Devices::kNotGranted) {
    Self().link.Send(krux::wire::EventKind::kContextMade, gpu, 0);
  }
  return result;
}
