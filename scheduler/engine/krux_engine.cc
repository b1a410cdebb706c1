// The C interface: checks what came from outside, then calls the engine.
#include "scheduler/engine/krux_engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "scheduler/engine/check.h"
#include "scheduler/engine/explain.h"
#include "scheduler/engine/phases.h"
#include "scheduler/engine/planner.h"
#include "scheduler/engine/request.h"
#include "scheduler/engine/selection.h"

namespace {

using krux::engine::AllSane;
using krux::engine::IsSane;
using krux::engine::Phases;

bool IsSanePlacement(const krux_placement& placement, size_t gpu_count) {
  if (placement.count > KRUX_MAX_GPUS_PER_CONTAINER) return false;
  for (uint32_t i = 0; i < placement.count; ++i) {
    if (placement.gpu[i] >= gpu_count || placement.memory_mib[i] > KRUX_MAX_MEMORY_MIB) {
      return false;
    }
  }
  return true;
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

int krux_policy(const char* name) noexcept {
  constexpr std::string_view kNames[] = {"fragmentation", "binpack", "spread", "topology"};
  static_assert(std::size(kNames) == KRUX_POLICIES);
  for (int i = 0; name != nullptr && i < KRUX_POLICIES; ++i) {
    if (kNames[i] == name) return i;
  }
  return -1;
}

int krux_matches(const char* list, const char* model) noexcept {
  if (list == nullptr || model == nullptr) return 0;
  return krux::engine::ListNamesModel(list, model) ? 1 : 0;
}

uint64_t krux_uuid_key(const char* uuid, size_t length) noexcept {
  return krux::engine::UuidKey({uuid, length});
}

int krux_plan(const krux_mix* mix, const krux_node* node, const krux_gpu* gpus, size_t gpu_count,
              const krux_pod* pod, const krux_container* containers, size_t container_count,
              krux_placement* placements, krux_verdict* verdict) noexcept {
  *verdict = {};
  verdict->code = KRUX_BAD_ARGUMENT;
  const krux_pod plain{};
  if (pod == nullptr) pod = &plain;
  Phases phases;
  if (gpu_count > KRUX_MAX_GPUS ||
      !krux::engine::FindPhases(containers, container_count, &phases) ||
      !AllSane(gpus, gpu_count) || !AllSane(containers, container_count) || !IsSane(*pod) ||
      (node != nullptr && !IsSane(*node))) {
    return KRUX_BAD_ARGUMENT;
  }
  const krux::engine::Knowledge& known =
      mix == nullptr ? krux::engine::ShippedKnowledge() : mix->knowledge;
  const krux::engine::NodeView view{node, gpus, gpu_count, pod, &known.forecast};
  krux::engine::Planner planner(view, containers, container_count, phases);
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
    if (!IsSanePlacement(placements[i], gpu_count) || containers[i].cores > 100)
      return KRUX_BAD_ARGUMENT;
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
