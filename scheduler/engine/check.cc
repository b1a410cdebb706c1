#include "scheduler/engine/check.h"

#include "scheduler/engine/policy.h"

namespace krux::engine {
namespace {

constexpr uint64_t kMaxUsedMib = KRUX_MAX_MEMORY_MIB * 1024;
constexpr uint32_t kMaxCount = 1U << 20;
constexpr uint64_t kMaxHost = uint64_t{1} << 40;  // of CPU in 1/1000 core, of memory in MiB

}  // namespace

bool IsSane(const krux_gpu& gpu) {
  return gpu.memory_mib <= KRUX_MAX_MEMORY_MIB && gpu.used_memory_mib <= kMaxUsedMib &&
         gpu.used_cores <= kMaxCount && gpu.used_slots <= kMaxCount && gpu.slots <= kMaxCount &&
         gpu.model < KRUX_MAX_MODELS;
}

bool IsSane(const krux_container& c) {
  return c.gpus <= KRUX_MAX_GPUS_PER_CONTAINER && c.memory_mib <= KRUX_MAX_MEMORY_MIB &&
         c.memory_percent <= 100 && c.cores <= 100 && (c.memory_mib == 0 || c.memory_percent == 0);
}

bool IsSane(const krux_pod& pod) {
  return pod.cpu_milli <= kMaxHost && pod.memory_mib <= kMaxHost &&
         pod.use_uuid_count <= KRUX_MAX_UUIDS && pod.no_uuid_count <= KRUX_MAX_UUIDS &&
         PolicyOf(pod.node_policy) != nullptr && PolicyOf(pod.gpu_policy) != nullptr;
}

bool IsSane(const krux_node& node) {
  return node.cpu_milli <= kMaxHost && node.used_cpu_milli <= kMaxHost &&
         node.memory_mib <= kMaxHost && node.used_memory_mib <= kMaxHost;
}

}  // namespace krux::engine
