// The C interface: checks what came from outside, then calls the engine.
#include "scheduler/engine/krux_engine.h"

#include <algorithm>
#include <array>

#include "scheduler/engine/explain.h"
#include "scheduler/engine/phases.h"
#include "scheduler/engine/planner.h"
#include "scheduler/engine/request.h"

namespace {

using krux::engine::Phases;

// Within these bounds no sum of the planner can overflow.
constexpr uint64_t kMaxUsedMib = KRUX_MAX_MEMORY_MIB * 1024;
constexpr uint32_t kMaxCount = 1u << 20;

bool IsSane(const krux_gpu& gpu) {
  return gpu.memory_mib <= KRUX_MAX_MEMORY_MIB && gpu.used_memory_mib <= kMaxUsedMib &&
         gpu.used_cores <= kMaxCount && gpu.used_slots <= kMaxCount && gpu.slots <= kMaxCount;
}

bool IsSane(const krux_container& c) {
  return c.gpus <= KRUX_MAX_GPUS_PER_CONTAINER && c.memory_mib <= KRUX_MAX_MEMORY_MIB &&
         c.memory_percent <= 100 && c.cores <= 100 && (c.memory_mib == 0 || c.memory_percent == 0);
}

bool IsSane(const krux_placement& placement, size_t gpu_count) {
  if (placement.count > KRUX_MAX_GPUS_PER_CONTAINER) return false;
  for (uint32_t i = 0; i < placement.count; ++i) {
    if (placement.gpu[i] >= gpu_count || placement.memory_mib[i] > KRUX_MAX_MEMORY_MIB) {
      return false;
    }
  }
  return true;
}

template <typename T>
bool AllSane(const T* items, size_t count) {
  return count == 0 || (items != nullptr &&
                        std::all_of(items, items + count, [](const T& x) { return IsSane(x); }));
}

void AddContainer(const krux_container& container, const krux_placement& placement,
                  krux_share* shares) {
  for (uint32_t i = 0; i < placement.count; ++i) {
    krux_share& share = shares[placement.gpu[i]];
    share.memory_mib += placement.memory_mib[i];
    share.cores += container.cores;
    ++share.slots;
    if (container.cores == 100) share.exclusive = 1;
  }
}

void RaiseTo(const krux_share& now, krux_share* peak) {
  peak->memory_mib = std::max(peak->memory_mib, now.memory_mib);
  peak->cores = std::max(peak->cores, now.cores);
  peak->slots = std::max(peak->slots, now.slots);
  peak->exclusive = std::max(peak->exclusive, now.exclusive);
}

}  // namespace

int krux_validate(const krux_asked* asked, krux_container* out, char* sentence,
                  size_t sentence_size) noexcept {
  if (sentence_size > 0) sentence[0] = '\0';
  return krux::engine::Validate(*asked, out, sentence, sentence_size) ? KRUX_VALID : KRUX_INVALID;
}

int krux_plan(const krux_gpu* gpus, size_t gpu_count, const krux_container* containers,
              size_t container_count, krux_placement* placements, krux_verdict* verdict) noexcept {
  *verdict = {};
  verdict->code = KRUX_BAD_ARGUMENT;
  Phases phases;
  if (gpu_count > KRUX_MAX_GPUS ||
      !krux::engine::FindPhases(containers, container_count, &phases) ||
      !AllSane(gpus, gpu_count) || !AllSane(containers, container_count)) {
    return KRUX_BAD_ARGUMENT;
  }
  krux::engine::Planner planner(gpus, gpu_count, containers, container_count, phases);
  planner.Plan(placements, verdict);
  return static_cast<int>(verdict->code);
}

void krux_reason(const krux_verdict* verdict, char* sentence, size_t sentence_size) noexcept {
  krux::engine::Reason(*verdict, sentence, sentence_size);
}

int krux_peak(const krux_container* containers, const krux_placement* placements,
              size_t container_count, krux_share* shares, size_t gpu_count) noexcept {
  Phases phases;
  if (gpu_count > KRUX_MAX_GPUS ||
      !krux::engine::FindPhases(containers, container_count, &phases)) {
    return KRUX_BAD_ARGUMENT;
  }
  for (size_t i = 0; i < container_count; ++i) {
    if (!IsSane(placements[i], gpu_count) || containers[i].cores > 100) return KRUX_BAD_ARGUMENT;
  }
  std::fill_n(shares, gpu_count, krux_share{});
  for (size_t phase = 0; phase < phases.count; ++phase) {
    std::array<krux_share, KRUX_MAX_GPUS> now{};
    for (size_t i = 0; i < container_count; ++i) {
      const bool active = phase >= phases.first[i] && phase <= phases.last[i];
      if (active) AddContainer(containers[i], placements[i], now.data());
    }
    for (size_t gpu = 0; gpu < gpu_count; ++gpu) RaiseTo(now[gpu], &shares[gpu]);
  }
  return KRUX_FITS;
}
