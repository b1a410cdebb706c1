// Contexts: cuCtx* and cuDevicePrimaryCtx*.
#include <algorithm>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/launch.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/thread_state.h"

using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::Device;
using krux::sim::FindDevice;
using krux::sim::ThisThread;
using krux::sim::ThreadState;

namespace {

// At most one way of waiting, and nothing unknown.
bool AreFlags(unsigned flags) {
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~unsigned{CU_CTX_FLAGS_MASK}) == 0 && (schedule & (schedule - 1)) == 0;
}

constexpr size_t kMostStack = 512 * 1024;  // of a thread

CUcontext Handle(Context* context) { return reinterpret_cast<CUcontext>(context); }

CUresult Push(Context* context) {
  ThreadState& thread = ThisThread();
  if (thread.depth == krux::sim::kContextStackDepth) return CUDA_ERROR_INVALID_CONTEXT;
  thread.contexts[thread.depth++] = context;
  return CUDA_SUCCESS;
}

CUresult Create(CUcontext* out, unsigned flags, CUdevice ordinal) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr || !AreFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  const CUresult result = CreateContext(device, flags, &context);
  if (result != CUDA_SUCCESS) return result;
  *out = Handle(context);
  return Push(context);
}

}  // namespace

CUresult CUDAAPI cuCtxCreate(CUcontext* out, unsigned int flags, CUdevice device) {
  return Create(out, flags, device);
}
CUresult CUDAAPI cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  return Create(out, flags, device);
}
CUresult CUDAAPI cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam*, int affinities,
                                unsigned int flags, CUdevice device) {
  return affinities == 0 ? Create(out, flags, device) : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}
CUresult CUDAAPI cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* parameters, unsigned int flags,
                                CUdevice device) {
  if (parameters != nullptr &&
      (parameters->numExecAffinityParams != 0 || parameters->cigParams != nullptr)) {
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  }
  return Create(out, flags, device);
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext handle) {
  KRUX_SIM_READY();
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (krux::sim::IsBuried(handle)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  Context* context = Checked<Context>(handle);
  if (context == nullptr || context->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
  krux::sim::ForgetContext(context);
  krux::sim::DestroyContext(context);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxDestroy(CUcontext handle) { return cuCtxDestroy_v2(handle); }

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext handle) {
  KRUX_SIM_READY();
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = Checked<Context>(handle);
  return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : Push(context);
}
CUresult CUDAAPI cuCtxPushCurrent(CUcontext handle) { return cuCtxPushCurrent_v2(handle); }

CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext* out) {
  KRUX_SIM_READY();
  ThreadState& thread = ThisThread();
  if (thread.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  Context* context = thread.contexts[--thread.depth];
  if (out != nullptr) *out = Handle(context);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* out) { return cuCtxPopCurrent_v2(out); }

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle) {
  KRUX_SIM_READY();
  ThreadState& thread = ThisThread();
  if (handle == nullptr) {
    if (thread.depth > 0) --thread.depth;
    return CUDA_SUCCESS;
  }
  // One that was destroyed can be made current: later calls say what it is.
  auto* context = reinterpret_cast<Context*>(handle);
  if (Checked<Context>(handle) == nullptr && !krux::sim::IsBuried(handle)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (thread.depth == 0) return Push(context);
  thread.contexts[thread.depth - 1] = context;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* out) {
  KRUX_SIM_READY();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // A context that was destroyed elsewhere stays current.
  const ThreadState& thread = ThisThread();
  *out = thread.depth == 0 ? nullptr : Handle(thread.contexts[thread.depth - 1]);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice* out) {
  KRUX_SIM_READY();
  Context* context = krux::sim::CurrentContext();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = context->device->ordinal();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice* out, CUcontext handle) {
  KRUX_SIM_READY();
  Context* context = handle == nullptr ? krux::sim::CurrentContext() : Checked<Context>(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = context->device->ordinal();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int* flags) {
  KRUX_SIM_CONTEXT(context);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags | CU_CTX_MAP_HOST;  // always, since there is one address space
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  if (!AreFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long* id) {
  KRUX_SIM_READY();
  Context* context = handle == nullptr ? krux::sim::CurrentContext() : Checked<Context>(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  KRUX_SIM_READY();
  Context* context = handle == nullptr ? krux::sim::CurrentContext() : Checked<Context>(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize() {
  KRUX_SIM_CONTEXT(context);
  if (const CUresult r = krux::sim::CheckNoCapture(context); r != CUDA_SUCCESS) return r;
  return SynchronizeContext(context);
}

CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext handle) {
  KRUX_SIM_READY();
  Context* context = handle == nullptr ? krux::sim::CurrentContext() : Checked<Context>(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return SynchronizeContext(context);
}

// The card rounds what it is asked for. The depth of launches from kernels has no limit any more.
CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  KRUX_SIM_CONTEXT(context);
  if (limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY && value > 128) return CUDA_ERROR_INVALID_VALUE;
  size_t unit = 1;
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) unit = 65536;
  if (limit == CU_LIMIT_PRINTF_FIFO_SIZE) unit = 256;
  if (value > SIZE_MAX - unit) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_STACK_SIZE) {
    const CUresult result = krux::sim::GrowLocalMemory(context, std::min(value, kMostStack));
    if (result != CUDA_SUCCESS) return result;
  }
  const std::lock_guard<std::mutex> lock(context->mutex);
  context->limits[limit] = (value + unit - 1) / unit * unit;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetLimit(size_t* value, CUlimit limit) {
  KRUX_SIM_CONTEXT(context);
  if (value == nullptr || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  const std::lock_guard<std::mutex> lock(context->mutex);
  *value = context->limits[limit];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxResetPersistingL2Cache() {
  KRUX_SIM_CONTEXT(context);
  return context->error.load();
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache* config) {
  KRUX_SIM_CONTEXT(context);
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = context->cache_config.load();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config) {
  KRUX_SIM_CONTEXT(context);
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  context->cache_config.store(config);
  return CUDA_SUCCESS;
}

// The banks of cards since Maxwell are four bytes wide, whatever is asked.
CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  KRUX_SIM_CONTEXT(context);
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return context->error.load();
}
CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig) {
  KRUX_SIM_CONTEXT(context);
  return context->error.load();
}

CUresult CUDAAPI cuCtxGetExecAffinity(CUexecAffinityParam* out, CUexecAffinityType type) {
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
  out->type = type;
  out->param.smCount.val = context->device->card().multiprocessors;
  return CUDA_SUCCESS;
}

// The current context, as it was counted before there were stacks of them.
CUresult CUDAAPI cuCtxAttach(CUcontext* out, unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = Handle(context);
  return CUDA_SUCCESS;
}

// All work of a context is behind the event: of each stream the end, seen from the legacy one.
CUresult CUDAAPI cuCtxRecordEvent(CUcontext handle, CUevent event_handle) {
  KRUX_SIM_READY();
  Context* context = Checked<Context>(handle);
  krux::sim::Event* event = Checked<krux::sim::Event>(event_handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (event == nullptr || event->context != context) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult r = krux::sim::CheckNoCapture(context); r != CUDA_SUCCESS) return r;
  krux::sim::Engine& engine = context->device->engine();
  krux::sim::Operation operation;
  operation.after = std::make_unique<std::vector<krux::sim::MarkPtr>>();
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    for (krux::sim::Stream* stream : context->streams) {
      if (krux::sim::MarkPtr mark = engine.Tail(&stream->queue)) {
        operation.after->push_back(std::move(mark));
      }
    }
  }
  operation.mark = std::make_shared<krux::sim::Mark>(&engine);
  {
    const std::lock_guard<std::mutex> lock(event->mutex);
    event->mark = operation.mark;
    event->capture_id = 0;
  }
  return SubmitTo(context->legacy, std::move(operation));
}

// Work that any stream is given later waits for the event.
CUresult CUDAAPI cuCtxWaitEvent(CUcontext handle, CUevent event) {
  KRUX_SIM_READY();
  Context* context = Checked<Context>(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (Checked<krux::sim::Event>(event) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult r = krux::sim::CheckNoCapture(context); r != CUDA_SUCCESS) return r;
  std::vector<krux::sim::Stream*> streams;
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    streams.assign(context->streams.begin(), context->streams.end());
  }
  for (krux::sim::Stream* stream : streams) {
    const CUresult result = cuStreamWaitEvent(reinterpret_cast<CUstream>(stream), event, 0);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  KRUX_SIM_CONTEXT(context);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  Context* other = Checked<Context>(peer);
  if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return other->device == context->device ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
  KRUX_SIM_CONTEXT(context);
  Context* other = Checked<Context>(peer);
  if (other == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return other->device == context->device ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED : CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice ordinal) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(device->primary_mutex);
  if (const CUresult r = ActivatePrimary(device); r != CUDA_SUCCESS) return r;
  ++device->primary_count;
  *out = Handle(device->primary);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard<std::mutex> lock(device->primary_mutex);
  if (device->primary_count == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary_count == 0) DeactivatePrimary(device);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  return cuDevicePrimaryCtxRelease_v2(ordinal);
}

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard<std::mutex> lock(device->primary_mutex);
  device->primary_count = 0;
  DeactivatePrimary(device);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice ordinal) {
  return cuDevicePrimaryCtxReset_v2(ordinal);
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (!AreFlags(flags)) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(device->primary_mutex);
  device->primary_flags = flags;
  if (device->primary != nullptr) device->primary->flags = flags;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int* flags, int* active) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(device->primary_mutex);
  *flags = device->primary_flags;
  *active = IsPrimaryActive(device) ? 1 : 0;
  return CUDA_SUCCESS;
}
