// The C interface of krux_cluster and krux_mix: checks what came from outside, and turns what the
// standard library throws (memory is short) into a code.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "scheduler/engine/check.h"
#include "scheduler/engine/cluster.h"
#include "scheduler/engine/krux_engine.h"
#include "scheduler/engine/phases.h"

using krux::engine::AllSane;
using krux::engine::IsSane;
using krux::engine::Mix;
using krux::engine::PodClass;

// The opaque type of krux_engine.h.
struct krux_cluster {  // NOLINT(readability-identifier-naming)
  krux::engine::Cluster cluster;
  PodClass asked;  // kept between calls for its memory
};

namespace {

template <typename Work>
int Guarded(const Work& work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return KRUX_NO_MEMORY;
  }
}

// Reads what a pod asks for into cluster->asked.
bool ReadPod(const krux_pod* pod, const krux_container* containers, size_t count, PodClass* asked) {
  krux::engine::Phases phases;
  if (pod != nullptr && !IsSane(*pod)) return false;
  if (!krux::engine::FindPhases(containers, count, &phases) || !AllSane(containers, count)) {
    return false;
  }
  asked->pod = pod == nullptr ? krux_pod{} : *pod;
  // What is beyond the counts takes no part in comparing classes.
  std::fill(asked->pod.use_uuids + asked->pod.use_uuid_count, std::end(asked->pod.use_uuids), 0);
  std::fill(asked->pod.no_uuids + asked->pod.no_uuid_count, std::end(asked->pod.no_uuids), 0);
  asked->containers.assign(containers, containers + count);
  return true;
}

}  // namespace

krux_cluster* krux_cluster_new() noexcept { return new (std::nothrow) krux_cluster; }

void krux_cluster_free(krux_cluster* cluster) noexcept { delete cluster; }

int krux_cluster_set(krux_cluster* cluster, uint32_t index, const krux_node* node,
                     const krux_gpu* gpus, size_t gpu_count) noexcept {
  const krux_node unknown{};
  if (node == nullptr) node = &unknown;
  if (index >= KRUX_MAX_NODES || gpu_count > KRUX_MAX_GPUS || !AllSane(gpus, gpu_count) ||
      !IsSane(*node)) {
    return KRUX_BAD_ARGUMENT;
  }
  return Guarded([&] {
    cluster->cluster.Set(index, *node, gpus, gpu_count);
    return KRUX_FITS;
  });
}

int krux_cluster_remove(krux_cluster* cluster, uint32_t index) noexcept {
  if (index >= KRUX_MAX_NODES) return KRUX_BAD_ARGUMENT;
  return Guarded([&] {
    cluster->cluster.Remove(index);
    return KRUX_FITS;
  });
}

int krux_cluster_learn(krux_cluster* cluster, const krux_pod* pod, const krux_container* containers,
                       size_t container_count) noexcept {
  return Guarded([&] {
    if (!ReadPod(pod, containers, container_count, &cluster->asked)) return -1;
    return cluster->cluster.Learn(cluster->asked) ? 1 : 0;
  });
}

krux_mix* krux_cluster_mix(const krux_cluster* cluster) noexcept {
  krux_mix* mix = nullptr;
  (void)Guarded([&] {
    mix = std::make_unique<krux_mix>(krux_mix{cluster->cluster.knowledge()}).release();
    return KRUX_FITS;
  });
  return mix;
}

int krux_cluster_use_mix(krux_cluster* cluster, const krux_mix* mix) noexcept {
  return Guarded([&] {
    cluster->cluster.UseMix(mix == nullptr ? nullptr : &mix->knowledge.mix);
    return KRUX_FITS;
  });
}

krux_mix* krux_mix_new(const krux_typical* typicals, size_t count, const uint32_t* gpus_of_model,
                       const uint64_t* memory_of_model) noexcept {
  constexpr size_t kMaxGiven = 4096;
  if (count == 0 || count > kMaxGiven || typicals == nullptr) return nullptr;
  krux_mix* mix = nullptr;
  (void)Guarded([&] {
    std::vector<krux::engine::Typical> classes;
    for (size_t i = 0; i < count; ++i) {
      const krux_typical& t = typicals[i];
      if (!IsSane(t.container) || !std::isfinite(t.weight) || t.weight <= 0 || t.weight > 1e12) {
        return KRUX_BAD_ARGUMENT;
      }
      classes.push_back(krux::engine::MakeTypical(t.container, t.cpu_milli, t.models, t.weight));
    }
    krux::engine::Fleet fleet;
    if (gpus_of_model != nullptr) {
      std::copy_n(gpus_of_model, fleet.gpus.size(), fleet.gpus.begin());
    }
    if (memory_of_model != nullptr) {
      std::copy_n(memory_of_model, fleet.memory_mib.size(), fleet.memory_mib.begin());
    }
    mix = std::make_unique<krux_mix>(
              krux_mix{krux::engine::Knowledge(Mix(std::move(classes), fleet.gpus), fleet)})
              .release();
    return KRUX_FITS;
  });
  return mix;
}

void krux_mix_free(krux_mix* mix) noexcept { delete mix; }

int krux_cluster_choose(krux_cluster* cluster, const krux_pod* pod,
                        const krux_container* containers, size_t container_count, uint32_t* index,
                        krux_placement* placements, krux_verdict* verdict) noexcept {
  *index = UINT32_MAX;
  *verdict = {};
  verdict->code = KRUX_BAD_ARGUMENT;
  return Guarded([&] {
    if (!ReadPod(pod, containers, container_count, &cluster->asked)) return +KRUX_BAD_ARGUMENT;
    const auto best = cluster->cluster.Choose(cluster->asked);
    verdict->code = KRUX_SHORT;
    if (!best) return +KRUX_SHORT;
    *index = *best;
    return cluster->cluster.Plan(*best, cluster->asked, placements, verdict);
  });
}

int krux_cluster_plan(krux_cluster* cluster, uint32_t index, const krux_pod* pod,
                      const krux_container* containers, size_t container_count,
                      krux_placement* placements, krux_verdict* verdict) noexcept {
  *verdict = {};
  verdict->code = KRUX_BAD_ARGUMENT;
  return Guarded([&] {
    if (!ReadPod(pod, containers, container_count, &cluster->asked)) return +KRUX_BAD_ARGUMENT;
    if (index >= cluster->cluster.size()) return +KRUX_BAD_ARGUMENT;
    return cluster->cluster.Plan(index, cluster->asked, placements, verdict);
  });
}

int krux_cluster_tend(krux_cluster* cluster, size_t most_nodes) noexcept {
  return Guarded([&] { return cluster->cluster.Tend(most_nodes) ? 1 : 0; });
}

int64_t krux_cluster_scores(krux_cluster* cluster, const krux_pod* pod,
                            const krux_container* containers, size_t container_count,
                            int64_t* scores, size_t size) noexcept {
  int64_t written = -1;
  (void)Guarded([&] {
    if (!ReadPod(pod, containers, container_count, &cluster->asked)) return KRUX_BAD_ARGUMENT;
    const auto& row = cluster->cluster.Scores(cluster->asked);
    const size_t count = std::min(size, row.size());
    for (size_t i = 0; i < count; ++i) {
      scores[i] = row[i] == krux::engine::kNoScore ? KRUX_NO_SCORE : row[i];
    }
    written = static_cast<int64_t>(count);
    return KRUX_FITS;
  });
  return written;
}
