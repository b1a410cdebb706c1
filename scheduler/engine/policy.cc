#include "scheduler/engine/policy.h"

#include <algorithm>

#include "scheduler/engine/policies/binpack.h"
#include "scheduler/engine/policies/fragmentation.h"
#include "scheduler/engine/policies/spread.h"
#include "scheduler/engine/policies/topology.h"

namespace krux::engine {
namespace {

constexpr int kNvlinkAffinity = 4;
constexpr int kNumaAffinity = 1;

}  // namespace

const Policy* PolicyOf(uint32_t policy) {
  switch (policy) {
    case KRUX_FRAGMENTATION:
      return &kFragmentation;
    case KRUX_BINPACK:
      return &kBinpack;
    case KRUX_SPREAD:
      return &kSpread;
    case KRUX_TOPOLOGY:
      return &kTopology;
    default:
      return nullptr;
  }
}

FreeShare FreeOf(const krux_gpu& gpu, const GpuUse& use) {
  const uint64_t memory = gpu.used_memory_mib + use.memory_mib;
  const uint32_t cores = gpu.used_cores + use.cores;
  const uint32_t slots = gpu.used_slots + use.slots;
  if (!TakesNewcomers(gpu) || (gpu.flags & KRUX_GPU_EXCLUSIVE) != 0 || slots >= gpu.slots)
    return {};
  FreeShare free;
  free.memory = ShareOf(gpu.memory_mib - std::min(memory, gpu.memory_mib), gpu.memory_mib);
  free.cores = static_cast<uint8_t>(100 - std::min(cores, 100U));
  // A tenant without guaranteed time, or with next to no memory, is a tenant all the same.
  if (slots > 0) {
    free.memory = std::min<uint8_t>(free.memory, kWholeShare - 1);
    free.cores = std::min<uint8_t>(free.cores, kWholeShare - 1);
  }
  return free;
}

bool TakesNewcomers(const krux_gpu& gpu) {
  return (gpu.flags & (KRUX_GPU_HEALTHY | KRUX_GPU_CORDONED | KRUX_GPU_MIG)) == KRUX_GPU_HEALTHY;
}

int Affinity(const krux_gpu* gpus, size_t a, size_t b) {
  const bool nvlink = (gpus[a].nvlink >> b & 1) != 0 && (gpus[b].nvlink >> a & 1) != 0;
  const bool numa = gpus[a].numa != 0 && gpus[a].numa == gpus[b].numa;
  return (nvlink ? kNvlinkAffinity : 0) + (numa ? kNumaAffinity : 0);
}

}  // namespace krux::engine
