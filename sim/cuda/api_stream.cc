// Streams, and values written and awaited in them. Captures are in api_graph.cc.
#include <algorithm>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
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

// Stores by the card: visible to the program's threads without any call of theirs.
template <typename T>
Work WriteWork(void* to, T value) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  work.make_action = [=] {
    return krux::sim::MakeAction(
        [=] { __atomic_store_n(static_cast<T*>(to), value, __ATOMIC_SEQ_CST); });
  };
  return work;
}

template <typename T>
struct WaitAction : krux::sim::Action {
  WaitAction(void* at, T what, unsigned how)
      : address(static_cast<T*>(at)), value(what), condition(how) {}
  void Run() override {}
  bool IsReady() override {
    const T found = __atomic_load_n(address, __ATOMIC_ACQUIRE);
    switch (condition) {
      case CU_STREAM_WAIT_VALUE_EQ:
        return found == value;
      case CU_STREAM_WAIT_VALUE_AND:
        return (found & value) != 0;
      case CU_STREAM_WAIT_VALUE_NOR:
        return static_cast<T>(~(found | value)) != 0;
      default:
        return static_cast<std::make_signed_t<T>>(found - value) >= 0;
    }
  }
  T* address;
  T value;
  unsigned condition;
};

template <typename T>
CUresult WriteValue(CUstream handle, CUdeviceptr address, T value, unsigned flags) {
  KRUX_SIM_STREAM(stream, handle);
  if ((flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}) != 0 || address == 0 ||
      address % sizeof(T) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  krux::sim::Allocation allocation;
  void* to = krux::sim::FindAllocation(address, &allocation)
                 ? krux::sim::BackingOf(address, sizeof(T))
                 : nullptr;
  if (to == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return krux::sim::Enqueue(stream, WriteWork<T>(to, value));
}

template <typename T>
CUresult WaitValue(CUstream handle, CUdeviceptr address, T value, unsigned flags) {
  KRUX_SIM_STREAM(stream, handle);
  const unsigned condition = flags & 3U;
  if ((flags & ~(3U | CU_STREAM_WAIT_VALUE_FLUSH)) != 0 || address == 0 ||
      address % sizeof(T) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  krux::sim::Allocation allocation;
  void* at = krux::sim::FindAllocation(address, &allocation)
                 ? krux::sim::BackingOf(address, sizeof(T))
                 : nullptr;
  if (at == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  work.make_action = [=] { return std::make_unique<WaitAction<T>>(at, value, condition); };
  return krux::sim::Enqueue(stream, std::move(work));
}

}  // namespace

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* out, unsigned int flags, int priority) {
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUstream>(CreateStream(context, flags, std::clamp(priority, -5, 0)));
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
  krux::sim::DestroyStream(stream);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  KRUX_SIM_STREAM(stream, handle);
  if (const CUresult r = CheckNotCapturing(stream); r != CUDA_SUCCESS) return r;
  krux::sim::Engine& engine = context->device->engine();
  if (engine.is_lost()) return CUDA_ERROR_UNKNOWN;
  return engine.IsEmpty(&stream->queue) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  KRUX_SIM_STREAM(stream, handle);
  if (const CUresult r = CheckNotCapturing(stream); r != CUDA_SUCCESS) return r;
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

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t,
                                        unsigned int) {
  KRUX_SIM_STREAM(stream, handle);
  krux::sim::Allocation allocation;
  const bool is_managed = stream != nullptr &&
                          krux::sim::TheHostMemory().Find(address, &allocation) &&
                          allocation.kind == krux::sim::MemoryKind::kManaged;
  return is_managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                         unsigned int flags) {
  return WriteValue<uint32_t>(stream, address, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                         unsigned int flags) {
  return WriteValue<uint64_t>(stream, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                        unsigned int flags) {
  return WaitValue<uint32_t>(stream, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                        unsigned int flags) {
  return WaitValue<uint64_t>(stream, address, value, flags);
}
// Before 11.7 these calls were behind a driver option that is off.
CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                      unsigned int flags) {
  return WriteValue<uint32_t>(stream, address, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                      unsigned int flags) {
  return WriteValue<uint64_t>(stream, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                     unsigned int flags) {
  return WaitValue<uint32_t>(stream, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                     unsigned int flags) {
  return WaitValue<uint64_t>(stream, address, value, flags);
}

CUresult CUDAAPI cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                       CUstreamBatchMemOpParams* operations, unsigned int flags) {
  KRUX_SIM_READY();
  if (operations == nullptr || count == 0 || count > 256 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& op = operations[i];
    CUresult result = CUDA_SUCCESS;
    switch (op.operation) {
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        result = WriteValue<uint32_t>(stream, op.writeValue.address, op.writeValue.value,
                                      op.writeValue.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        result = WriteValue<uint64_t>(stream, op.writeValue.address, op.writeValue.value64,
                                      op.writeValue.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        result = WaitValue<uint32_t>(stream, op.waitValue.address, op.waitValue.value,
                                     op.waitValue.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        result = WaitValue<uint64_t>(stream, op.waitValue.address, op.waitValue.value64,
                                     op.waitValue.flags);
        break;
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      case CU_STREAM_MEM_OP_BARRIER:
        break;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned int count,
                                    CUstreamBatchMemOpParams* operations, unsigned int flags) {
  return cuStreamBatchMemOp_v2(stream, count, operations, flags);
}
