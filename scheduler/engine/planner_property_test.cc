// Random nodes and pods: no plan over-commits, and for small cases a pod waits only when no
// arrangement at all exists.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <set>
#include <vector>

#include "scheduler/engine/krux_engine.h"

namespace {

using Random = std::mt19937_64;

uint64_t Pick(Random& random, uint64_t low, uint64_t high) {
  return std::uniform_int_distribution<uint64_t>(low, high)(random);
}

krux_gpu RandomGpu(Random& random) {
  krux_gpu gpu{};
  gpu.memory_mib = Pick(random, 1, 20);
  gpu.slots = static_cast<uint32_t>(Pick(random, 1, 5));
  gpu.flags = Pick(random, 0, 9) == 0 ? 0 : KRUX_GPU_HEALTHY;
  if (Pick(random, 0, 2) == 0) {
    gpu.used_slots = 1;
    gpu.used_memory_mib = Pick(random, 1, gpu.memory_mib + 1);  // sometimes over-committed
    gpu.used_cores = static_cast<uint32_t>(Pick(random, 0, 10) * 10);
    if (gpu.used_cores == 100) gpu.flags |= KRUX_GPU_EXCLUSIVE;
  }
  return gpu;
}

krux_container RandomContainer(Random& random) {
  krux_container c{};
  c.gpus = static_cast<uint32_t>(Pick(random, 0, 2));
  c.kind = static_cast<uint32_t>(Pick(random, 0, 2));
  switch (Pick(random, 0, 3)) {
    case 0:
      c.memory_percent = static_cast<uint32_t>(Pick(random, 1, 100));
      break;
    case 1:
      break;
    default:
      c.memory_mib = Pick(random, 1, 12);
  }
  c.cores = static_cast<uint32_t>(Pick(random, 0, 10) * 10);
  return c;
}

// Init containers and sidecars come before the apps, as in a pod.
std::vector<krux_container> RandomPod(Random& random, size_t most) {
  std::vector<krux_container> pod(Pick(random, 1, most));
  for (auto& c : pod) c = RandomContainer(random);
  std::stable_partition(pod.begin(), pod.end(), [](const auto& c) { return c.kind != KRUX_APP; });
  return pod;
}

bool IsExclusive(const krux_container& c) {
  return (c.memory_mib == 0 && c.memory_percent == 0) || c.cores == 100;
}

uint64_t Need(const krux_container& c, const krux_gpu& gpu) {
  if (c.memory_mib > 0) return c.memory_mib;
  if (c.memory_percent == 0) return gpu.memory_mib;
  return std::max<uint64_t>(gpu.memory_mib * c.memory_percent / 100, 1);
}

// The pod's phases by the words of the specification: for each init container the sidecars before
// it and itself, at last all sidecars and apps.
std::vector<std::vector<size_t>> PhasesOf(const std::vector<krux_container>& pod) {
  std::vector<std::vector<size_t>> phases;
  std::vector<size_t> sidecars;
  for (size_t i = 0; i < pod.size(); ++i) {
    if (pod[i].kind == KRUX_SIDECAR) sidecars.push_back(i);
    if (pod[i].kind != KRUX_INIT) continue;
    phases.push_back(sidecars);
    phases.back().push_back(i);
  }
  phases.push_back(sidecars);
  for (size_t i = 0; i < pod.size(); ++i) {
    if (pod[i].kind == KRUX_APP) phases.back().push_back(i);
  }
  return phases;
}

using Choice = std::vector<std::vector<uint32_t>>;  // GPUs of each container

bool IsSound(const std::vector<krux_gpu>& gpus, const std::vector<krux_container>& pod,
             const Choice& choice) {
  for (const auto& phase : PhasesOf(pod)) {
    std::vector<krux_gpu> now = gpus;
    std::vector<int> tenants(gpus.size(), 0);
    std::vector<int> alone(gpus.size(), 0);
    for (const size_t i : phase) {
      if (std::set<uint32_t>(choice[i].begin(), choice[i].end()).size() != pod[i].gpus)
        return false;
      for (const uint32_t g : choice[i]) {
        const krux_gpu& card = gpus[g];
        const bool over = card.used_memory_mib > card.memory_mib || card.used_cores > 100;
        if ((card.flags & KRUX_GPU_HEALTHY) == 0 || over) return false;
        if (IsExclusive(pod[i]) && card.used_slots > 0) return false;
        if ((card.flags & KRUX_GPU_EXCLUSIVE) != 0) return false;
        now[g].used_memory_mib += Need(pod[i], card);
        now[g].used_cores += pod[i].cores;
        ++now[g].used_slots;
        ++tenants[g];
        alone[g] += IsExclusive(pod[i]) ? 1 : 0;
      }
    }
    for (size_t g = 0; g < gpus.size(); ++g) {
      if (tenants[g] == 0) continue;
      if (now[g].used_memory_mib > now[g].memory_mib || now[g].used_cores > 100) return false;
      if (now[g].used_slots > now[g].slots || (alone[g] > 0 && tenants[g] > 1)) return false;
    }
  }
  return true;
}

// Every assignment of distinct GPUs to containers, by brute force.
bool SomeChoiceIsSound(const std::vector<krux_gpu>& gpus, const std::vector<krux_container>& pod) {
  Choice choice(pod.size());
  std::function<bool(size_t, uint32_t)> extend = [&](size_t i, uint32_t from) {
    if (i == pod.size()) return IsSound(gpus, pod, choice);
    if (choice[i].size() == pod[i].gpus) return extend(i + 1, 0);
    for (uint32_t g = from; g < gpus.size(); ++g) {
      choice[i].push_back(g);
      if (extend(i, g + 1)) return true;
      choice[i].pop_back();
    }
    return false;
  };
  return extend(0, 0);
}

TEST(PlannerProperty, PlansAreSoundAndFoundWheneverTheyExist) {
  Random random(20260101);
  int fits = 0;
  for (uint32_t round = 0; round < 20000; ++round) {
    std::vector<krux_gpu> gpus(Pick(random, 0, 3));
    for (auto& gpu : gpus) gpu = RandomGpu(random);
    const std::vector<krux_container> pod = RandomPod(random, 4);
    std::vector<krux_placement> placements(pod.size());
    krux_verdict verdict;
    krux_pod asked{};
    asked.node_policy = round % KRUX_POLICIES;
    asked.gpu_policy = round / KRUX_POLICIES % KRUX_POLICIES;
    const int code = krux_plan(nullptr, nullptr, gpus.data(), gpus.size(), &asked, pod.data(),
                               pod.size(), placements.data(), &verdict);
    ASSERT_NE(code, KRUX_BAD_ARGUMENT);
    ASSERT_EQ(code == KRUX_FITS, SomeChoiceIsSound(gpus, pod)) << "round " << round;
    if (code != KRUX_FITS) continue;
    ++fits;
    Choice choice(pod.size());
    for (size_t i = 0; i < pod.size(); ++i) {
      choice[i].assign(placements[i].gpu, placements[i].gpu + placements[i].count);
      for (size_t k = 0; k < choice[i].size(); ++k) {
        ASSERT_EQ(placements[i].memory_mib[k], Need(pod[i], gpus[choice[i][k]]));
      }
    }
    ASSERT_TRUE(IsSound(gpus, pod, choice)) << "round " << round;
  }
  EXPECT_GT(fits, 1000);
}

krux_gpu FreshGpu() {
  krux_gpu gpu{};
  gpu.memory_mib = 20;
  gpu.slots = 4;
  gpu.flags = KRUX_GPU_HEALTHY;
  return gpu;
}

// Pods come and go on one node; what each occupies is its peak. No card is ever over-committed,
// and after the last one has gone all is free.
TEST(PlannerProperty, ChargesOfPeaksNeverOvercommit) {
  Random random(7);
  std::vector<krux_gpu> gpus(4);
  for (auto& gpu : gpus) gpu = FreshGpu();
  std::vector<std::array<krux_share, 4>> pods;
  const auto recount = [&] {
    for (size_t g = 0; g < gpus.size(); ++g) {
      gpus[g] = FreshGpu();
      for (const auto& pod : pods) {
        gpus[g].used_memory_mib += pod[g].memory_mib;
        gpus[g].used_cores += pod[g].cores;
        gpus[g].used_slots += pod[g].slots;
        if (pod[g].exclusive != 0) gpus[g].flags |= KRUX_GPU_EXCLUSIVE;
      }
      ASSERT_LE(gpus[g].used_memory_mib, 20u);
      ASSERT_LE(gpus[g].used_cores, 100u);
      ASSERT_LE(gpus[g].used_slots, 4u);
    }
  };
  for (uint32_t round = 0; round < 20000; ++round) {
    if (!pods.empty() && Pick(random, 0, 1) == 0) {
      pods.erase(pods.begin() + static_cast<ptrdiff_t>(Pick(random, 0, pods.size() - 1)));
    } else {
      const auto pod = RandomPod(random, 5);
      std::vector<krux_placement> placements(pod.size());
      krux_verdict verdict;
      if (krux_plan(nullptr, nullptr, gpus.data(), 4, nullptr, pod.data(), pod.size(),
                    placements.data(), &verdict) == KRUX_FITS) {
        auto& shares = pods.emplace_back();
        ASSERT_EQ(krux_peak(pod.data(), placements.data(), pod.size(), shares.data(), 4),
                  KRUX_FITS);
      }
    }
    ASSERT_NO_FATAL_FAILURE(recount());
  }
}

}  // namespace
