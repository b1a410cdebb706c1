// What is asked of a kernel: attributes, parameters, occupancy. A CUkernel is taken too.
#include <algorithm>

#include "sim/cuda/module.h"

using krux::sim::Card;
using krux::sim::Checked;
using krux::sim::Function;

#define KRUX_SIM_FUNCTION(name, handle)             \
  KRUX_SIM_READY();                                 \
  Function* const name = Checked<Function>(handle); \
  if (name == nullptr) return CUDA_ERROR_INVALID_HANDLE

namespace {

constexpr int kRegistersPerBlock = 65536;
constexpr int kWarp = 32;

struct SharedLimits {
  int per_block;  // that a kernel can opt into
  int per_multiprocessor;
};
SharedLimits SharedOf(const Card& card) {
  switch (card.compute_major * 10 + card.compute_minor) {
    case 75:
      return {64 << 10, 64 << 10};
    case 80:
      return {163 << 10, 164 << 10};
    case 89:
      return {99 << 10, 100 << 10};
    default:
      return {227 << 10, 228 << 10};
  }
}

int RoundUp(int value, int unit) { return (value + unit - 1) / unit * unit; }

int RegistersOfWarp(const Function& function) { return RoundUp(function.registers * kWarp, 256); }

// Threads that fit into one block with the kernel's registers.
int MaxThreads(const Function& function) {
  const int warps = kRegistersPerBlock / RegistersOfWarp(function) / 4 * 4;
  return std::min({function.max_threads, warps * kWarp, 1024});
}

CUresult Attribute(int* value, CUfunction_attribute attribute, const Function& function) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = MaxThreads(function);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(function.shared_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(function.local_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = function.registers;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = function.ptx_version != 0 ? function.ptx_version : function.binary_version;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = function.binary_version;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = static_cast<int>(function.constant_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function.max_dynamic_shared_bytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = function.carveout;
      return CUDA_SUCCESS;
    default:
      break;
  }
  if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}

int BlocksPerMultiprocessor(const Card& card, const Function& function, int block_size,
                            size_t dynamic_shared) {
  const SharedLimits limits = SharedOf(card);
  const size_t shared = function.shared_bytes + dynamic_shared;
  if (block_size > MaxThreads(function) || shared > static_cast<size_t>(limits.per_block)) return 0;
  const int warps = (block_size + kWarp - 1) / kWarp;
  const int by_threads = static_cast<int>(card.threads_per_multiprocessor) / (warps * kWarp);
  const int by_registers = kRegistersPerBlock / RegistersOfWarp(function) / 4 * 4 / warps;
  int most = std::min({by_threads, by_registers, card.compute_minor == 9 ? 24 : 32});
  // A kilobyte of each block's shared memory belongs to the system.
  const int of_block = RoundUp(static_cast<int>(shared) + 1024, 128);
  return std::min(most, limits.per_multiprocessor / of_block);
}

}  // namespace

CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  KRUX_SIM_FUNCTION(function, handle);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Attribute(value, attribute, *function);
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  KRUX_SIM_FUNCTION(function, handle);
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    const int most = SharedOf(krux::sim::Devices()[0]->card()).per_block;
    if (value < 0 || value > most - static_cast<int>(function->shared_bytes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    function->max_dynamic_shared_bytes = value;
  } else if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
    function->carveout = value;
  } else if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
    function->allows_large_clusters = value != 0;
  } else if (attribute < CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET ||
             attribute >= CU_FUNC_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  KRUX_SIM_FUNCTION(function, handle);
  const bool is_known = function != nullptr && config >= CU_FUNC_CACHE_PREFER_NONE &&
                        config <= CU_FUNC_CACHE_PREFER_EQUAL;
  return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig) {
  KRUX_SIM_FUNCTION(function, handle);
  return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetModule(CUmodule* out, CUfunction handle) {
  KRUX_SIM_FUNCTION(function, handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (function->module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(function->module);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction handle) {
  KRUX_SIM_FUNCTION(function, handle);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = function->name.c_str();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset,
                                    size_t* bytes) {
  KRUX_SIM_FUNCTION(function, handle);
  if (offset == nullptr || index >= function->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->parameters[index].offset;
  if (bytes != nullptr) *bytes = function->parameters[index].bytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  KRUX_SIM_FUNCTION(function, handle);
  if (state == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncLoad(CUfunction handle) {
  KRUX_SIM_FUNCTION(function, handle);
  return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction handle, int block_size, size_t dynamic, unsigned int flags) {
  KRUX_SIM_FUNCTION(function, handle);
  KRUX_SIM_CONTEXT(context);
  if (blocks == nullptr || block_size <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *blocks = BlocksPerMultiprocessor(context->device->card(), *function, block_size, dynamic);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                             int block_size, size_t dynamic) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, dynamic,
                                                              0);
}

// The largest block that keeps most threads on a multiprocessor.
CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction handle,
                                                           CUoccupancyB2DSize dynamic_of,
                                                           size_t dynamic, int limit,
                                                           unsigned int flags) {
  KRUX_SIM_FUNCTION(function, handle);
  KRUX_SIM_CONTEXT(context);
  if (grid == nullptr || block == nullptr || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Card& card = context->device->card();
  const int most = MaxThreads(*function);
  int best_threads = 0;
  for (int size = RoundUp(limit > 0 ? std::min(limit, most) : most, kWarp); size > 0;
       size -= kWarp) {
    const int tried = limit > 0 ? std::min(size, limit) : size;
    const int blocks = BlocksPerMultiprocessor(card, *function, tried,
                                               dynamic_of != nullptr ? dynamic_of(tried) : dynamic);
    if (blocks * tried <= best_threads) continue;
    best_threads = blocks * tried;
    *block = tried;
    *grid = blocks * static_cast<int>(card.multiprocessors);
  }
  return best_threads > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                                  CUoccupancyB2DSize dynamic_of, size_t dynamic,
                                                  int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, dynamic_of, dynamic,
                                                   limit, 0);
}

CUresult CUDAAPI cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle,
                                                         int blocks, int block_size) {
  KRUX_SIM_FUNCTION(function, handle);
  KRUX_SIM_CONTEXT(context);
  if (bytes == nullptr || blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  const SharedLimits limits = SharedOf(context->device->card());
  const int share = limits.per_multiprocessor / blocks / 128 * 128 - 1024;
  // No more than the kernel may ask for now.
  const int left = std::min({share - static_cast<int>(function->shared_bytes),
                             limits.per_block - static_cast<int>(function->shared_bytes),
                             function->max_dynamic_shared_bytes});
  *bytes = static_cast<size_t>(std::max(left, 0));
  return CUDA_SUCCESS;
}

// Clusters of blocks: up to 8 blocks run on one group of multiprocessors, 16 if the kernel allows
// it.
CUresult CUDAAPI cuOccupancyMaxPotentialClusterSize(int* size, CUfunction handle,
                                                    const CUlaunchConfig* config) {
  KRUX_SIM_FUNCTION(function, handle);
  KRUX_SIM_CONTEXT(context);
  if (size == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (context->device->card().compute_major < 9) return CUDA_ERROR_NOT_SUPPORTED;
  *size = function->allows_large_clusters ? 16 : 8;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle,
                                              const CUlaunchConfig* config) {
  KRUX_SIM_FUNCTION(function, handle);
  KRUX_SIM_CONTEXT(context);
  if (clusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Card& card = context->device->card();
  if (card.compute_major < 9) return CUDA_ERROR_NOT_SUPPORTED;
  unsigned blocks_of_cluster = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    blocks_of_cluster =
        attribute.value.clusterDim.x * attribute.value.clusterDim.y * attribute.value.clusterDim.z;
  }
  const unsigned threads = config->blockDimX * config->blockDimY * config->blockDimZ;
  if (threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  if (blocks_of_cluster == 0 || blocks_of_cluster > 16) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  const int blocks =
      BlocksPerMultiprocessor(card, *function, static_cast<int>(threads), config->sharedMemBytes);
  // Whole groups only: an H200's 132 multiprocessors are groups of 16 or 18.
  constexpr unsigned kGroup = 16;
  const unsigned groups = card.multiprocessors / kGroup;
  *clusters =
      static_cast<int>(groups * (kGroup * static_cast<unsigned>(blocks) / blocks_of_cluster));
  return CUDA_SUCCESS;
}
