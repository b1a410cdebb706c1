// Launches of kernels and host functions.
#include <algorithm>

#include "sim/cuda/capture.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/launch.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/module.h"
#include "sim/cuda/thread_state.h"

using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::FindStream;
using krux::sim::Function;
using krux::sim::LaunchCost;
using krux::sim::LaunchShape;
using krux::sim::Stream;
using krux::sim::Work;

namespace {

CUresult Launch(CUfunction handle, const LaunchShape& shape, CUstream stream_handle,
                void** parameters, void** extra) {
  KRUX_SIM_CONTEXT(context);
  Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = FindStream(stream_handle, context);
  if (stream == nullptr || stream->context != context) return CUDA_ERROR_INVALID_HANDLE;
  if (!IsValidLaunch(shape, *function)) return CUDA_ERROR_INVALID_VALUE;
  const void* packed = nullptr;
  if (extra != nullptr) {
    if (parameters != nullptr) return CUDA_ERROR_INVALID_VALUE;
    packed = krux::sim::PackedParameters(extra);
    if (krux::sim::PackedBytes(extra) > function->parameter_bytes) {
      return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
  }
  if (!function->parameters.empty() && parameters == nullptr && packed == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult r = krux::sim::GrowLocalMemory(context, function->local_bytes);
      r != CUDA_SUCCESS)
    return r;
  if (function->uses_heap) {
    if (const CUresult r = krux::sim::TakeHeap(context); r != CUDA_SUCCESS) return r;
  }
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

// Cooperative blocks must all be on the card at once.
CUresult CheckCooperative(CUfunction function, uint64_t blocks, uint64_t threads,
                          unsigned shared_bytes) {
  KRUX_SIM_CONTEXT(context);
  int per_processor = 0;
  if (threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuOccupancyMaxActiveBlocksPerMultiprocessor(
      &per_processor, function, static_cast<int>(threads), shared_bytes);
  if (result != CUDA_SUCCESS) return result;
  return blocks > static_cast<uint64_t>(per_processor) * context->device->card().multiprocessors
             ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
             : CUDA_SUCCESS;
}

CUresult CheckCluster(const CUlaunchAttributeValue& value, const CUlaunchConfig& config,
                      CUfunction handle) {
  const auto& size = value.clusterDim;
  const Function* function = Checked<Function>(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const uint64_t blocks = uint64_t{size.x} * size.y * size.z;
  if (blocks == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool divides = config.gridDimX % size.x == 0 && config.gridDimY % size.y == 0 &&
                       config.gridDimZ % size.z == 0;
  return blocks > (function->allows_large_clusters ? 16U : 8U) || !divides
             ? CUDA_ERROR_INVALID_CLUSTER_SIZE
             : CUDA_SUCCESS;
}

CUresult CheckAttribute(const CUlaunchAttribute& attribute, const CUlaunchConfig& config,
                        CUfunction function) {
  if (attribute.id < 0 || attribute.id >= CU_LAUNCH_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    return CheckCluster(attribute.value, config, function);
  }
  if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative != 0) {
    return CheckCooperative(function, uint64_t{config.gridDimX} * config.gridDimY * config.gridDimZ,
                            uint64_t{config.blockDimX} * config.blockDimY * config.blockDimZ,
                            config.sharedMemBytes);
  }
  return CUDA_SUCCESS;
}

// While it lives, the thread runs a function of the program's that may not call the driver.
struct CallBan {
  CallBan() { krux::sim::ThisThread().in_host_function = true; }
  ~CallBan() { krux::sim::ThisThread().in_host_function = false; }
  CallBan(const CallBan&) = delete;
  CallBan& operator=(const CallBan&) = delete;
};

struct HostFunction : krux::sim::Action {
  HostFunction(CUhostFn function, void* user_data) : fn(function), data(user_data) {}
  void Run() override {
    const CallBan ban;
    fn(data);
  }
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
  if (config == nullptr || (config->numAttrs > 0 && config->attrs == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUresult result = CheckAttribute(config->attrs[i], *config, function);
    if (result != CUDA_SUCCESS) return result;
  }
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
  const CUresult result = CheckCooperative(function, uint64_t{grid_x} * grid_y * grid_z,
                                           uint64_t{block_x} * block_y * block_z, shared_bytes);
  if (result != CUDA_SUCCESS) return result;
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
