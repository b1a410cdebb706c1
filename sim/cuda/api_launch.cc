// Launches of kernels and host functions.
#include <algorithm>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/launch.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/module.h"

using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::FindStream;
using krux::sim::Function;
using krux::sim::LaunchCost;
using krux::sim::LaunchShape;
using krux::sim::Stream;
using krux::sim::Work;

namespace {

// A launch that needs more local memory per thread than any before makes the context's local memory
// grow, for all threads that the card can hold. Seen on an H200: 8 KiB a thread took 1848 MiB,
// which is (8192 - 1024) bytes for each of 132 x 2048 threads.
CUresult GrowLocalMemory(Context* context, const Function& function) {
  if (function.local_bytes <= context->local_bytes_per_thread.load(std::memory_order_relaxed)) {
    return CUDA_SUCCESS;
  }
  const std::lock_guard<std::mutex> lock(context->mutex);
  const size_t before = context->local_bytes_per_thread.load();
  if (function.local_bytes <= before) return CUDA_SUCCESS;
  const krux::sim::Card& card = context->device->card();
  const uint64_t threads = uint64_t{card.multiprocessors} * card.threads_per_multiprocessor;
  const uint64_t bytes = krux::sim::RoundToChunk((function.local_bytes - before) * threads);
  if (!context->device->memory().Charge(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  context->local_memory_bytes.fetch_add(bytes);
  context->local_bytes_per_thread.store(function.local_bytes);
  return CUDA_SUCCESS;
}

CUresult Launch(CUfunction handle, const LaunchShape& shape, CUstream stream_handle,
                void** parameters, void** extra) {
  KRUX_SIM_CONTEXT(context);
  Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = FindStream(stream_handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!IsValidLaunch(shape, *function)) return CUDA_ERROR_INVALID_VALUE;
  const void* packed = krux::sim::PackedParameters(extra);
  if (!function->parameters.empty() && parameters == nullptr && packed == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult r = GrowLocalMemory(context, *function); r != CUDA_SUCCESS) return r;
  if (stream->capture.load(std::memory_order_relaxed) != nullptr || function->computes != nullptr) {
    return krux::sim::Enqueue(stream, KernelWork(context, handle, shape, parameters, packed));
  }
  if (const CUresult r = krux::sim::CheckLegacyUse(stream); r != CUDA_SUCCESS) return r;
  const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  const LaunchCost cost =
      CostOf(*function, context->device->card(), blocks, threads, parameters, packed);
  krux::sim::Operation operation;
  operation.cost = cost.time;
  operation.width = cost.width;
  operation.on_card = true;
  return SubmitTo(stream, std::move(operation));
}

struct HostFunction : krux::sim::Action {
  HostFunction(CUhostFn function, void* user_data) : fn(function), data(user_data) {}
  void Run() override { fn(data); }
  bool IsHostFunction() const override { return true; }
  CUhostFn fn;
  void* data;
};

struct StreamCallback : krux::sim::Action {
  StreamCallback(CUstream handle, CUstreamCallback function, void* user_data)
      : stream(handle), fn(function), data(user_data) {}
  void Run() override { fn(stream, CUDA_SUCCESS, data); }
  bool IsHostFunction() const override { return true; }
  CUstream stream;
  CUstreamCallback fn;
  void* data;
};

}  // namespace

krux::sim::Work krux::sim::HostFunctionWork(CUhostFn function, void* data) {
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_HOST;
  auto parameters = std::make_shared<NodeParameters>();
  parameters->host = {function, data};
  work.parameters = std::move(parameters);
  work.make_action = [=] { return std::make_unique<HostFunction>(function, data); };
  return work;
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                void** parameters, void** extra) {
  return Launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes},
                stream, parameters, extra);
}

CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                  void** parameters, void** extra) {
  KRUX_SIM_READY();
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Launch(function,
                {{config->gridDimX, config->gridDimY, config->gridDimZ},
                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                 config->sharedMemBytes},
                config->hStream, parameters, extra);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x,
                                           unsigned int grid_y, unsigned int grid_z,
                                           unsigned int block_x, unsigned int block_y,
                                           unsigned int block_z, unsigned int shared_bytes,
                                           CUstream stream, void** parameters) {
  KRUX_SIM_CONTEXT(context);
  int per_processor = 0;
  const uint64_t threads = uint64_t{block_x} * block_y * block_z;
  if (threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuOccupancyMaxActiveBlocksPerMultiprocessor(
      &per_processor, function, static_cast<int>(threads), shared_bytes);
  if (result != CUDA_SUCCESS) return result;
  const uint64_t blocks = uint64_t{grid_x} * grid_y * grid_z;
  if (blocks > static_cast<uint64_t>(per_processor) * context->device->card().multiprocessors) {
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  return Launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes},
                stream, parameters, nullptr);
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return krux::sim::Enqueue(stream, krux::sim::HostFunctionWork(function, data));
}

CUresult CUDAAPI cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data,
                                     unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = CheckNotCapturing(stream); r != CUDA_SUCCESS) return r;
  Work work;
  work.make_action = [=] { return std::make_unique<StreamCallback>(handle, callback, data); };
  return krux::sim::Enqueue(stream, std::move(work));
}
