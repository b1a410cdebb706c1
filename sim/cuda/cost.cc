#include <algorithm>
#include <cstring>

#include "sim/cuda/launch.h"
#include "sim/cuda/memory.h"

namespace krux::sim {
namespace {

uint64_t ReadParameter(const Function& function, void** parameters, const void* packed) {
  if (function.cost_parameter >= function.parameters.size()) return 0;
  const Parameter& parameter = function.parameters[function.cost_parameter];
  const void* value = nullptr;
  if (parameters != nullptr) {
    value = parameters[function.cost_parameter];
  } else if (packed != nullptr) {
    value = static_cast<const char*>(packed) + parameter.offset;
  }
  if (value == nullptr || parameter.bytes > 8) return 0;
  uint64_t units = 0;
  std::memcpy(&units, value, parameter.bytes);
  return units;
}

std::vector<char> PackParameters(const Function& function, void** parameters, const void* packed) {
  std::vector<char> bytes(function.parameter_bytes);
  if (bytes.empty()) return bytes;
  if (packed != nullptr) {
    std::memcpy(bytes.data(), packed, bytes.size());
  } else if (parameters != nullptr) {
    for (size_t i = 0; i < function.parameters.size(); ++i) {
      std::memcpy(bytes.data() + function.parameters[i].offset, parameters[i],
                  function.parameters[i].bytes);
    }
  }
  return bytes;
}

// A kernel that really computes. Its failure is the context's from then on.
struct ComputeAction : Action {
  ComputeAction(Context* of, const Function* kernel, std::vector<char> arguments)
      : context(of), function(kernel), packed(std::move(arguments)) {}
  void Run() override {
    const CUresult result = function->computes->run(KernelArguments(*function, packed.data()));
    if (result == CUDA_SUCCESS) return;
    constexpr uint32_t kXidMemoryFault = 31;
    Device* device = context->device;
    device->Fail(result);
    if (result == CUDA_ERROR_ILLEGAL_ADDRESS) {
      device->state()->ReportXid(device->card_index(), kXidMemoryFault);
    }
  }
  Context* context;
  const Function* function;
  std::vector<char> packed;
};

}  // namespace

LaunchCost CostOf(const Function& function, Card& card, uint64_t blocks, uint64_t threads_per_block,
                  void** parameters, const void* packed_parameters) {
  // How many blocks the card holds at once.
  const uint64_t per_processor = std::max<uint64_t>(
      1, card.threads_per_multiprocessor / std::max<uint64_t>(1, threads_per_block));
  const uint64_t wave = per_processor * card.multiprocessors;
  LaunchCost cost;
  cost.width =
      static_cast<float>(std::min(1.0, static_cast<double>(blocks) / static_cast<double>(wave)));
  constexpr uint64_t kLongest = uint64_t{3600} * 1'000'000'000;
  if (function.has_named_cost) {
    const uint64_t units = function.picoseconds_per_unit == 0
                               ? 0
                               : ReadParameter(function, parameters, packed_parameters);
    const double variable =
        static_cast<double>(units) * static_cast<double>(function.picoseconds_per_unit) / 1000;
    cost.time =
        function.base_cost + static_cast<Nanos>(std::min(variable, static_cast<double>(kLongest)));
    return cost;
  }
  // Unknown kernels: a start-up cost and some time for each wave of blocks.
  constexpr Nanos kStart = 2500;
  constexpr Nanos kWave = 2500;
  const uint64_t waves = (blocks + wave - 1) / wave;
  cost.time = kStart + kWave * static_cast<Nanos>(std::min<uint64_t>(waves, 1'000'000'000));
  return cost;
}

CUresult GrowLocalMemory(Context* context, size_t bytes_per_thread) {
  if (bytes_per_thread <= context->local_bytes_per_thread.load(std::memory_order_relaxed)) {
    return CUDA_SUCCESS;
  }
  const std::lock_guard<std::mutex> lock(context->mutex);
  const size_t before = context->local_bytes_per_thread.load();
  if (bytes_per_thread <= before) return CUDA_SUCCESS;
  const Card& card = context->device->card();
  const uint64_t threads = uint64_t{card.multiprocessors} * card.threads_per_multiprocessor;
  const uint64_t bytes = RoundToChunk((bytes_per_thread - before) * threads);
  if (!context->device->memory().Charge(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  context->local_memory_bytes.fetch_add(bytes);
  context->local_bytes_per_thread.store(bytes_per_thread);
  return CUDA_SUCCESS;
}

CUresult TakeHeap(Context* context) {
  if (context->heap_bytes.load(std::memory_order_relaxed) != 0) return CUDA_SUCCESS;
  constexpr uint64_t kBeside = 2 << 20;  // what an H200 took more than the limit says
  const std::lock_guard<std::mutex> lock(context->mutex);
  if (context->heap_bytes.load() != 0) return CUDA_SUCCESS;
  const uint64_t bytes = RoundToChunk(context->limits[CU_LIMIT_MALLOC_HEAP_SIZE]) + kBeside;
  if (!context->device->memory().Charge(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  context->heap_bytes.store(bytes);
  return CUDA_SUCCESS;
}

constexpr uint64_t kMostLocal = 512 * 1024;  // of a thread

bool IsValidLaunch(const LaunchShape& shape, const Function& function) {
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  return threads > 0 && threads <= 1024 && shape.block[2] <= 64 && shape.grid[0] > 0 &&
         shape.grid[0] <= 0x7fffffff && shape.grid[1] > 0 && shape.grid[1] <= 65535 &&
         shape.grid[2] > 0 && shape.grid[2] <= 65535 &&
         shape.shared_bytes <= static_cast<unsigned>(function.max_dynamic_shared_bytes) &&
         function.local_bytes < kMostLocal;
}

const void* PackedParameters(void** extra) {
  if (extra == nullptr) return nullptr;
  for (int i = 0; i < 6 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) return extra[i + 1];
  }
  return nullptr;
}

size_t PackedBytes(void** extra) {
  for (int i = 0; i < 6 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) return *static_cast<const size_t*>(extra[i + 1]);
  }
  return 0;
}

Work KernelWork(Context* context, CUfunction handle, const LaunchShape& shape, void** parameters,
                const void* packed) {
  const Function& function = *Checked<Function>(handle);
  const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  const LaunchCost cost =
      CostOf(function, context->device->card(), blocks, threads, parameters, packed);
  Work work;
  work.type = CU_GRAPH_NODE_TYPE_KERNEL;
  work.cost = cost.time;
  work.width = cost.width;
  work.on_card = true;
  work.kernel.func = handle;
  work.kernel.gridDimX = shape.grid[0];
  work.kernel.gridDimY = shape.grid[1];
  work.kernel.gridDimZ = shape.grid[2];
  work.kernel.blockDimX = shape.block[0];
  work.kernel.blockDimY = shape.block[1];
  work.kernel.blockDimZ = shape.block[2];
  work.kernel.sharedMemBytes = shape.shared_bytes;
  work.packed_parameters = PackParameters(function, parameters, packed);
  if (function.computes != nullptr) {
    work.make_action = [context, &function, arguments = work.packed_parameters] {
      return std::make_unique<ComputeAction>(context, &function, arguments);
    };
  }
  return work;
}

}  // namespace krux::sim
