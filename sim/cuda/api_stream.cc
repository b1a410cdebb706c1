// Streams, and values written and awaited in them. Captures are in api_capture.cc.
#include <algorithm>
#include <cstring>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/mem_op.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/thread_state.h"

using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::FindStream;
using krux::sim::Stream;
using krux::sim::Work;

#define KRUX_SIM_STREAM(name, handle)               \
  KRUX_SIM_CONTEXT(context);                        \
  Stream* const name = FindStream(handle, context); \
  if (name == nullptr) return CUDA_ERROR_INVALID_HANDLE

namespace {

// One node in a capture, else one operation after the other.
CUresult EnqueueBatch(Stream* stream, Work work) {
  if (stream->capture.load() != nullptr) return krux::sim::Enqueue(stream, std::move(work));
  for (Work& part : work.parts) {
    const CUresult result = krux::sim::Enqueue(stream, std::move(part));
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult RunOperation(CUstream handle, const CUstreamBatchMemOpParams& operation) {
  KRUX_SIM_STREAM(stream, handle);
  Work work;
  const CUresult result = krux::sim::BatchWork(&operation, 1, &work);
  return result == CUDA_SUCCESS ? EnqueueBatch(stream, std::move(work)) : result;
}

CUresult WriteValue(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address,
                    cuuint64_t value, unsigned flags) {
  CUstreamBatchMemOpParams operation = {};
  operation.writeValue.operation = type;
  operation.writeValue.address = address;
  operation.writeValue.value64 = value;
  operation.writeValue.flags = flags;
  return RunOperation(stream, operation);
}

CUresult WaitValue(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address,
                   cuuint64_t value, unsigned flags) {
  CUstreamBatchMemOpParams operation = {};
  operation.waitValue.operation = type;
  operation.waitValue.address = address;
  operation.waitValue.value64 = value;
  operation.waitValue.flags = flags;
  return RunOperation(stream, operation);
}

}  // namespace

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = CreateOwnStream(context, flags, std::clamp(priority, -5, 0));
  if (stream == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream* out, unsigned int flags) {
  return cuStreamCreateWithPriority(out, flags, 0);
}

CUresult CUDAAPI cuStreamDestroy_v2(CUstream handle) {
  KRUX_SIM_READY();
  Stream* stream = handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD
                       ? nullptr
                       : Checked<Stream>(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult error = krux::sim::ErrorOf(stream->context);
  krux::sim::DestroyStream(stream);
  return error;
}
CUresult CUDAAPI cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  KRUX_SIM_STREAM(stream, handle);
  if (const CUresult r = CheckNotCapturing(stream); r != CUDA_SUCCESS) return r;
  if (const CUresult r = krux::sim::CheckAllowedInCapture(); r != CUDA_SUCCESS) return r;
  krux::sim::Engine& engine = context->device->engine();
  if (engine.is_lost()) return CUDA_ERROR_UNKNOWN;
  return engine.IsEmpty(&stream->queue) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  KRUX_SIM_STREAM(stream, handle);
  if (const CUresult r = CheckNotCapturing(stream); r != CUDA_SUCCESS) return r;
  if (const CUresult r = krux::sim::CheckAllowedInCapture(); r != CUDA_SUCCESS) return r;
  // The legacy stream stands for all blocking streams: it is done when they are.
  if (stream->is_legacy && context->blocking_streams.load() > 0) {
    const CUresult r = SubmitTo(stream, krux::sim::Operation{});
    if (r != CUDA_SUCCESS) return r;
  }
  WaitForStream(stream);
  krux::sim::TrimPools(context->device);
  return context->device->engine().is_lost() ? CUDA_ERROR_UNKNOWN : context->error.load();
}

CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int* priority) {
  KRUX_SIM_STREAM(stream, handle);
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  KRUX_SIM_STREAM(stream, handle);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long* id) {
  KRUX_SIM_STREAM(stream, handle);
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetDevice(CUstream handle, CUdevice* device) {
  KRUX_SIM_STREAM(stream, handle);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->context->device->ordinal();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext* out) {
  KRUX_SIM_STREAM(stream, handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx_v2(CUstream handle, CUcontext* out, CUgreenCtx* green) {
  if (green != nullptr) *green = nullptr;
  return cuStreamGetCtx(handle, out);
}

CUresult CUDAAPI cuStreamGetAttribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue* out) {
  KRUX_SIM_STREAM(stream, handle);
  if (out == nullptr || id < 0 || id >= CU_LAUNCH_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) out->priority = stream->priority;
  if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) {
    *out = stream->sync_policy;
    // What an H200 says of a stream for which nothing was set.
    if (!stream->has_sync_policy) std::memset(out, 0xff, sizeof out->syncPolicy);
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSetAttribute(CUstream handle, CUstreamAttrID id,
                                      const CUstreamAttrValue* value) {
  KRUX_SIM_STREAM(stream, handle);
  if (value == nullptr || id < 0 || id >= CU_LAUNCH_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) stream->priority = std::clamp(value->priority, -5, 0);
  if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) {
    stream->sync_policy = *value;
    stream->has_sync_policy = true;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCopyAttributes(CUstream to_handle, CUstream from_handle) {
  KRUX_SIM_STREAM(to, to_handle);
  const Stream* from = FindStream(from_handle, context);
  if (from == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  to->sync_policy = from->sync_policy;
  to->has_sync_policy = from->has_sync_policy;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t,
                                        unsigned int flags) {
  KRUX_SIM_STREAM(stream, handle);
  krux::sim::Allocation allocation;
  const bool is_known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
                        (flags == CU_MEM_ATTACH_SINGLE && !stream->is_legacy);
  const bool is_managed = is_known && krux::sim::TheHostMemory().Find(address, &allocation) &&
                          allocation.kind == krux::sim::MemoryKind::kManaged;
  return is_managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                         unsigned int flags) {
  return WriteValue(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                         unsigned int flags) {
  return WriteValue(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                        unsigned int flags) {
  return WaitValue(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                        unsigned int flags) {
  return WaitValue(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}
// Before 11.7 these calls were behind a driver option that is off.
CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                      unsigned int flags) {
  return WriteValue(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                      unsigned int flags) {
  return WriteValue(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                     unsigned int flags) {
  return WaitValue(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                     unsigned int flags) {
  return WaitValue(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}

CUresult CUDAAPI cuStreamBatchMemOp_v2(CUstream handle, unsigned int count,
                                       CUstreamBatchMemOpParams* operations, unsigned int flags) {
  KRUX_SIM_STREAM(stream, handle);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (count == 0) return CUDA_SUCCESS;
  Work work;
  const CUresult result = krux::sim::BatchWork(operations, count, &work);
  return result == CUDA_SUCCESS ? EnqueueBatch(stream, std::move(work)) : result;
}
CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned int count,
                                    CUstreamBatchMemOpParams* operations, unsigned int flags) {
  return cuStreamBatchMemOp_v2(stream, count, operations, flags);
}
