// The cluster's rows must say the same as planning the pod on every node.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "scheduler/engine/cluster.h"
#include "scheduler/engine/krux_engine.h"

namespace {

struct FreeCluster {
  void operator()(krux_cluster* cluster) const { krux_cluster_free(cluster); }
};
struct FreeMix {
  void operator()(krux_mix* mix) const { krux_mix_free(mix); }
};
using ClusterHandle = std::unique_ptr<krux_cluster, FreeCluster>;
using MixHandle = std::unique_ptr<krux_mix, FreeMix>;

struct Node {
  krux_node host{};
  std::vector<krux_gpu> gpus;
};

struct Ask {
  krux_pod pod{};
  std::vector<krux_container> containers;
};

// A cluster and the truth beside it.
class World {
 public:
  explicit World(uint64_t seed) : random_(seed), cluster_(krux_cluster_new()) {}

  uint64_t Pick(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }
  krux_cluster* cluster() const { return cluster_.get(); }

  void AddNodes(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      Node node;
      node.host = {Pick(8, 32) * 1000, 0, Pick(8, 32) * 1000, 0};
      node.gpus.resize(Pick(1, 8));
      for (auto& gpu : node.gpus) {
        gpu.memory_mib = 1000;
        gpu.slots = 8;
        gpu.flags = KRUX_GPU_HEALTHY;
        gpu.model = static_cast<uint32_t>(nodes_.size() % 3);
      }
      nodes_.push_back(node);
      Tell(nodes_.size() - 1);
    }
  }

  Ask RandomAsk() {
    Ask ask;
    ask.pod.cpu_milli = Pick(0, 4) * 1000;
    ask.pod.memory_mib = Pick(0, 2) * 1000;
    ask.pod.node_policy = static_cast<uint32_t>(Pick(0, 9) == 0 ? Pick(1, 3) : 0);
    if (Pick(0, 4) == 0) ask.pod.use_models = Pick(1, 7);
    const size_t containers = Pick(0, 5) == 0 ? 2 : 1;
    for (size_t i = 0; i < containers; ++i) {
      krux_container c{};
      c.gpus = static_cast<uint32_t>(Pick(0, 6) == 0 ? Pick(2, 4) : 1);
      c.memory_mib = Pick(0, 2) == 0 ? 0 : Pick(1, 9) * 100;
      c.cores = c.memory_mib == 0 ? 100 : static_cast<uint32_t>(Pick(0, 3) * 25);
      ask.containers.push_back(c);
    }
    return ask;
  }

  // What krux_plan says of every node, with the host's room.
  int64_t TrueScore(size_t index, const Ask& ask, const krux_mix* mix) const {
    const Node& node = nodes_[index];
    const bool room = node.host.used_cpu_milli + ask.pod.cpu_milli <= node.host.cpu_milli &&
                      node.host.used_memory_mib + ask.pod.memory_mib <= node.host.memory_mib;
    std::vector<krux_placement> placements(ask.containers.size());
    krux_verdict verdict;
    krux_plan(mix, &node.host, node.gpus.data(), node.gpus.size(), &ask.pod, ask.containers.data(),
              ask.containers.size(), placements.data(), &verdict);
    return room && verdict.code == KRUX_FITS ? verdict.score : KRUX_NO_SCORE;
  }

  void Place(size_t index, const Ask& ask, const std::vector<krux_placement>& placements) {
    Node& node = nodes_[index];
    std::vector<krux_share> shares(node.gpus.size());
    ASSERT_EQ(krux_peak(ask.containers.data(), placements.data(), placements.size(), shares.data(),
                        shares.size()),
              KRUX_FITS);
    node.host.used_cpu_milli += ask.pod.cpu_milli;
    node.host.used_memory_mib += ask.pod.memory_mib;
    for (size_t g = 0; g < shares.size(); ++g) {
      node.gpus[g].used_memory_mib += shares[g].memory_mib;
      node.gpus[g].used_cores += shares[g].cores;
      node.gpus[g].used_slots += shares[g].slots;
      if (shares[g].exclusive != 0) node.gpus[g].flags |= KRUX_GPU_EXCLUSIVE;
    }
    Tell(index);
  }

  void Empty(size_t index) {
    Node& node = nodes_[index];
    node.host.used_cpu_milli = node.host.used_memory_mib = 0;
    for (auto& gpu : node.gpus) {
      gpu.used_memory_mib = 0;
      gpu.used_cores = gpu.used_slots = 0;
      gpu.flags = KRUX_GPU_HEALTHY;
    }
    Tell(index);
  }

  void Drop(size_t index) {
    nodes_[index].gpus.clear();
    ASSERT_EQ(krux_cluster_remove(cluster(), static_cast<uint32_t>(index)), KRUX_FITS);
  }

  size_t size() const { return nodes_.size(); }

 private:
  void Tell(size_t index) {
    const Node& node = nodes_[index];
    ASSERT_EQ(krux_cluster_set(cluster(), static_cast<uint32_t>(index), &node.host,
                               node.gpus.data(), node.gpus.size()),
              KRUX_FITS);
  }

  std::mt19937_64 random_;
  ClusterHandle cluster_;
  std::vector<Node> nodes_;
};

TEST(Cluster, RowsSayWhatPlanningOnEveryNodeSays) {
  World world(11);
  world.AddNodes(70);  // more than one block of a row
  std::vector<Ask> classes;
  for (int i = 0; i < 30; ++i) classes.push_back(world.RandomAsk());
  int placed = 0;
  MixHandle mix;
  for (int round = 0; round < 1500; ++round) {
    const Ask& ask = classes[world.Pick(0, classes.size() - 1)];
    const int changed =
        krux_cluster_learn(world.cluster(), &ask.pod, ask.containers.data(), ask.containers.size());
    ASSERT_GE(changed, 0);
    if (changed == 1 || mix == nullptr) mix.reset(krux_cluster_mix(world.cluster()));
    std::vector<int64_t> truth;
    for (size_t i = 0; i < world.size(); ++i) truth.push_back(world.TrueScore(i, ask, mix.get()));
    std::vector<int64_t> row(world.size());
    ASSERT_EQ(krux_cluster_scores(world.cluster(), &ask.pod, ask.containers.data(),
                                  ask.containers.size(), row.data(), row.size()),
              static_cast<int64_t>(row.size()));
    ASSERT_EQ(row, truth) << "round " << round;
    uint32_t index = 0;
    std::vector<krux_placement> placements(ask.containers.size());
    krux_verdict verdict;
    const int code =
        krux_cluster_choose(world.cluster(), &ask.pod, ask.containers.data(), ask.containers.size(),
                            &index, placements.data(), &verdict);
    const auto best = std::max_element(truth.begin(), truth.end());
    if (*best == KRUX_NO_SCORE) {
      ASSERT_EQ(code, KRUX_SHORT);
      ASSERT_EQ(index, UINT32_MAX);
      world.Empty(world.Pick(0, world.size() - 1));
      continue;
    }
    ASSERT_EQ(code, KRUX_FITS);
    ASSERT_EQ(index, best - truth.begin());
    world.Place(index, ask, placements);
    ++placed;
    krux_cluster_tend(world.cluster(), world.Pick(0, 20));
    if (round == 700) world.Drop(3);
    if (round == 900) world.AddNodes(5);
  }
  EXPECT_GT(placed, 500);
}

TEST(Cluster, TendsAllRowsToTheEnd) {
  World world(12);
  world.AddNodes(3);
  for (int i = 0; i < 5; ++i) {
    const Ask ask = world.RandomAsk();
    int64_t score = 0;
    ASSERT_EQ(krux_cluster_scores(world.cluster(), &ask.pod, ask.containers.data(),
                                  ask.containers.size(), &score, 1),
              1);
  }
  world.Empty(0);
  world.Empty(1);
  // Each row lags by two nodes: ten looks.
  EXPECT_EQ(krux_cluster_tend(world.cluster(), 9), 1);
  EXPECT_EQ(krux_cluster_tend(world.cluster(), SIZE_MAX), 0);
  EXPECT_EQ(krux_cluster_tend(world.cluster(), 0), 0);
}

// The mix prices models by how many cards there are: those that came since the last mix count too.
TEST(Cluster, LearnsWithTheNodesThatAreThere) {
  using krux::engine::Cluster;
  using krux::engine::PodClass;
  krux_gpu gpu{};
  gpu.memory_mib = 1000;
  gpu.slots = 8;
  gpu.flags = KRUX_GPU_HEALTHY;
  krux_gpu other = gpu;
  other.model = 1;
  PodClass pinned;
  pinned.pod.use_models = 2;
  pinned.containers.push_back({1000, 0, 100, 1, KRUX_APP});
  const auto learn = [&](Cluster* cluster, int pods) {
    for (int i = 0; i < pods; ++i) (void)cluster->Learn(pinned);
  };
  Cluster late;
  late.Set(0, {}, &gpu, 1);
  late.Set(1, {}, &other, 1);
  learn(&late, 24);  // mixes are due after 10 and after 25 pods
  for (uint32_t i = 2; i < 9; ++i) late.Set(i, {}, &other, 1);
  learn(&late, 1);
  Cluster at_once;
  at_once.Set(0, {}, &gpu, 1);
  for (uint32_t i = 1; i < 9; ++i) at_once.Set(i, {}, &other, 1);
  learn(&at_once, 25);
  EXPECT_EQ(late.mix().scarcity(1), at_once.mix().scarcity(1));
}

TEST(Cluster, RefusesNonsense) {
  const ClusterHandle cluster(krux_cluster_new());
  krux_gpu gpu{};
  gpu.model = KRUX_MAX_MODELS;
  EXPECT_EQ(krux_cluster_set(cluster.get(), 0, nullptr, &gpu, 1), KRUX_BAD_ARGUMENT);
  EXPECT_EQ(krux_cluster_set(cluster.get(), KRUX_MAX_NODES, nullptr, nullptr, 0),
            KRUX_BAD_ARGUMENT);
  krux_pod pod{};
  pod.node_policy = KRUX_POLICIES;
  uint32_t index = 0;
  krux_verdict verdict;
  EXPECT_EQ(krux_cluster_choose(cluster.get(), &pod, nullptr, 0, &index, nullptr, &verdict),
            KRUX_BAD_ARGUMENT);
  EXPECT_EQ(krux_cluster_learn(cluster.get(), &pod, nullptr, 0), -1);
  EXPECT_EQ(krux_cluster_scores(cluster.get(), &pod, nullptr, 0, nullptr, 0), -1);
}

}  // namespace
