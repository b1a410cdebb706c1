// Contexts: cuCtx* and cuDevicePrimaryCtx*.
#include <algorithm>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/thread_state.h"

using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::Device;
using krux::sim::FindDevice;
using krux::sim::ThisThread;
using krux::sim::ThreadState;

namespace {

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
  if (out == nullptr || (flags & ~unsigned{CU_CTX_FLAGS_MASK}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
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
  Context* context = Checked<Context>(handle);
  if (context == nullptr || context->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
  krux::sim::ForgetContext(context);
  krux::sim::DestroyContext(context);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxDestroy(CUcontext handle) { return cuCtxDestroy_v2(handle); }

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext handle) {
  KRUX_SIM_READY();
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
  Context* context = Checked<Context>(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (thread.depth == 0) return Push(context);
  thread.contexts[thread.depth - 1] = context;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* out) {
  KRUX_SIM_READY();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = Handle(krux::sim::CurrentContext());
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
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetFlags(unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  if ((flags & ~unsigned{CU_CTX_FLAGS_MASK}) != 0) return CUDA_ERROR_INVALID_VALUE;
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

CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value) {
  KRUX_SIM_CONTEXT(context);
  if (limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(context->mutex);
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetLimit(size_t* value, CUlimit limit) {
  KRUX_SIM_CONTEXT(context);
  if (value == nullptr || limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(context->mutex);
  *value = context->limits[limit];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache* config) {
  KRUX_SIM_CONTEXT(context);
  if (config == nullptr || context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = CU_FUNC_CACHE_PREFER_NONE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache) {
  KRUX_SIM_CONTEXT(context);
  return context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
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
  return other->device == context->device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
  KRUX_SIM_CONTEXT(context);
  Context* other = Checked<Context>(peer);
  return other == nullptr || other == context ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
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
  if ((flags & ~unsigned{CU_CTX_FLAGS_MASK}) != 0) return CUDA_ERROR_INVALID_VALUE;
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
