#include <algorithm>

#include "sim/cuda/driver.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/thread_state.h"

namespace krux::sim {
namespace {

std::atomic<uint64_t> g_next_id{1};

void SetDefaultLimits(Context* context) {
  context->limits[CU_LIMIT_STACK_SIZE] = 1024;
  context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1024 * 1024;
  context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 * 1024 * 1024;
  context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
  context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
  context->local_bytes_per_thread.store(1024);
}

}  // namespace

ThreadState& ThisThread() {
  static thread_local ThreadState state;
  return state;
}

Context* CurrentContext() {
  const ThreadState& thread = ThisThread();
  return thread.depth == 0 ? nullptr : Checked<Context>(thread.contexts[thread.depth - 1]);
}

void ForgetContext(Context* context) {
  ThreadState& thread = ThisThread();
  if (thread.depth > 0 && thread.contexts[thread.depth - 1] == context) --thread.depth;
}

CUresult CreateContext(Device* device, unsigned flags, bool is_primary, Context** out) {
  if (const CUresult result = device->Attach(); result != CUDA_SUCCESS) return result;
  if (device->engine().is_lost()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  if (!device->memory().Charge(device->card().context_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  Context* context = Make<Context>();
  context->device = device;
  context->flags = flags;
  context->is_primary = is_primary;
  context->id = g_next_id.fetch_add(1);
  SetDefaultLimits(context);
  context->legacy = CreateStream(context, 0, 0);
  context->legacy->is_legacy = true;
  *out = context;
  return CUDA_SUCCESS;
}

CUresult SynchronizeContext(Context* context) {
  std::vector<Stream*> streams;
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    streams.assign(context->streams.begin(), context->streams.end());
  }
  for (Stream* stream : streams) WaitForStream(stream);
  TrimPools(context->device);
  return context->device->engine().is_lost() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

void DestroyContext(Context* context) {
  SynchronizeContext(context);
  std::set<Stream*> streams;
  {
    const std::lock_guard<std::mutex> lock(context->mutex);
    streams.swap(context->streams);
  }
  for (Stream* stream : streams) Bury(stream);
  Device* device = context->device;
  device->memory().FreeAllOf(context);
  TheHostMemory().FreeAllOf(context);
  device->memory().Refund(device->card().context_bytes + context->local_memory_bytes.load());
  Bury(context);
}

}  // namespace krux::sim
