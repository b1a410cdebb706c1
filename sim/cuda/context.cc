#include <algorithm>
#include <utility>

#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/thread_state.h"

namespace krux::sim {
namespace {

std::atomic<uint64_t> g_next_id{1};

void SetDefaultLimits(Context* context) {
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 * 1024 * 1024;
  context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  context->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 11796480;
  context->limits[CU_LIMIT_SHMEM_SIZE] = 232448;
  context->local_bytes_per_thread.store(1024);
}

Context* NewContext(Device* device) {
  auto* context = Make<Context>();
  context->device = device;
  context->id = g_next_id.fetch_add(1);
  return context;
}

CUresult Activate(Context* context) {
  Device* device = context->device;
  if (const CUresult result = device->Attach(); result != CUDA_SUCCESS) return result;
  if (device->engine().is_lost()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  if (const CUresult fault = device->fault.load(); fault != CUDA_SUCCESS) return fault;
  if (!device->TakeContextMemory()) return CUDA_ERROR_OUT_OF_MEMORY;
  context->id = g_next_id.fetch_add(1);
  SetDefaultLimits(context);
  context->legacy = CreateStream(context, 0, 0);
  context->legacy->is_legacy = true;
  context->error.store(CUDA_SUCCESS);
  device->AddContext(context);
  return CUDA_SUCCESS;
}

// What the CUDA runtime kept in the context is told of its end, outside of our locks: it may call
// in.
void DestroyStorage(Context* context) {
  std::map<void*, Context::Stored> storage;
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    storage.swap(context->storage);
  }
  for (const auto& [key, stored] : storage) {
    if (stored.destroy == nullptr) continue;
    stored.destroy(reinterpret_cast<CUcontext>(context), key, stored.value);
  }
}

void Deactivate(Context* context) {
  context->device->RemoveContext(context);
  DestroyStorage(context);
  SynchronizeContext(context);
  std::set<Stream*> streams;
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    streams.swap(context->streams);
  }
  context->legacy = nullptr;
  context->made_streams = 0;
  context->blocking_streams.store(0);
  context->legacy_used.store(false);
  for (Stream* stream : streams) Bury(stream);
  Device* device = context->device;
  device->memory().FreeAllOf(context);
  TheHostMemory().FreeAllOf(context);
  device->ReturnContextMemory();
  device->memory().Refund(context->local_memory_bytes.exchange(0) +
                          context->heap_bytes.exchange(0) +
                          std::exchange(context->stream_bytes, 0));
}

}  // namespace

void Device::Fail(CUresult error) {
  const std::lock_guard<std::mutex> lock(contexts_mutex_);
  fault.store(error);
  for (Context* context : contexts_) context->error.store(error);
}

void Device::AddContext(Context* context) {
  const std::lock_guard<std::mutex> lock(contexts_mutex_);
  contexts_.insert(context);
}

void Device::RemoveContext(Context* context) {
  const std::lock_guard<std::mutex> lock(contexts_mutex_);
  contexts_.erase(context);
}

ThreadState& ThisThread() {
  static thread_local ThreadState state;
  return state;
}

Context* CurrentContext() {
  const ThreadState& thread = ThisThread();
  return thread.depth == 0 ? nullptr : Checked<Context>(thread.contexts[thread.depth - 1]);
}

CUresult ErrorOf(Context* context) {
  const bool is_alive = Checked<Context>(context) != nullptr && context->legacy != nullptr;
  return is_alive ? context->error.load() : CUDA_SUCCESS;
}

void ForgetContext(Context* context) {
  ThreadState& thread = ThisThread();
  if (thread.depth > 0 && thread.contexts[thread.depth - 1] == context) --thread.depth;
}

CUresult UseContext(Context** out) {
  const ThreadState& thread = ThisThread();
  if (thread.depth == 0) {
    return thread.in_host_function ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_INVALID_CONTEXT;
  }
  Context* context = Checked<Context>(thread.contexts[thread.depth - 1]);
  if (context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *out = context;
  return context->error.load(std::memory_order_relaxed);
}

CUresult CreateContext(Device* device, unsigned flags, Context** out) {
  Context* context = NewContext(device);
  context->flags = flags;
  const CUresult result = Activate(context);
  if (result != CUDA_SUCCESS) {
    Bury(context);
    return result;
  }
  *out = context;
  return CUDA_SUCCESS;
}

Context* PrimaryHandle(Device* device) {
  if (device->primary == nullptr) {
    device->primary = NewContext(device);
    device->primary->is_primary = true;
    device->primary->error.store(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }
  return device->primary;
}

CUresult ActivatePrimary(Device* device) {
  Context* context = PrimaryHandle(device);
  if (IsPrimaryActive(device)) return CUDA_SUCCESS;
  context->flags = device->primary_flags;
  return Activate(context);
}

void DeactivatePrimary(Device* device) {
  if (!IsPrimaryActive(device)) return;
  Deactivate(device->primary);
  device->primary->error.store(CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

bool IsPrimaryActive(const Device* device) {
  return device->primary != nullptr && device->primary->legacy != nullptr;
}

CUresult SynchronizeContext(Context* context) {
  std::vector<Stream*> streams;
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    streams.assign(context->streams.begin(), context->streams.end());
  }
  for (Stream* stream : streams) WaitForStream(stream);
  TrimPools(context->device);
  return context->device->engine().is_lost() ? CUDA_ERROR_UNKNOWN : context->error.load();
}

void DestroyContext(Context* context) {
  Deactivate(context);
  Bury(context);
}

}  // namespace krux::sim
