// What each policy prefers, on nodes small enough to say by hand what is right.
#include "scheduler/engine/policy.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "scheduler/engine/krux_engine.h"

namespace {

krux_gpu Card(uint64_t used = 0, uint32_t cores = 0) {
  krux_gpu card{};
  card.memory_mib = 1000;
  card.used_memory_mib = used;
  card.used_cores = cores;
  card.used_slots = used > 0 ? 1 : 0;
  card.slots = 16;
  card.flags = KRUX_GPU_HEALTHY;
  return card;
}

krux_container Ask(uint64_t memory, uint32_t cores = 0, uint32_t gpus = 1) {
  return {memory, 0, cores, gpus, KRUX_APP};
}
krux_container Percent(uint32_t memory, uint32_t cores = 0) {
  return {0, memory, cores, 1, KRUX_APP};
}
krux_container Whole(uint32_t gpus) { return {0, 0, 100, gpus, KRUX_APP}; }

struct Answer {
  krux_verdict verdict{};
  std::set<uint32_t> gpus;
};

Answer Plan(const std::vector<krux_gpu>& gpus, const krux_container& container, uint32_t policy,
            const krux_mix* mix = nullptr, const krux_node* node = nullptr, uint64_t cpu = 0) {
  krux_pod pod{};
  pod.node_policy = policy;
  pod.gpu_policy = policy;
  pod.cpu_milli = cpu;
  Answer answer;
  krux_placement placement;
  krux_plan(mix, node, gpus.data(), gpus.size(), &pod, &container, 1, &placement, &answer.verdict);
  if (answer.verdict.code == KRUX_FITS) {
    answer.gpus.insert(placement.gpu, placement.gpu + placement.count);
  }
  return answer;
}

krux_mix* MixOf(const std::vector<krux_typical>& typicals, std::vector<uint32_t> gpus = {}) {
  gpus.resize(KRUX_MAX_MODELS);
  return krux_mix_new(typicals.data(), typicals.size(), gpus.data(), nullptr);
}

TEST(Policy, NamesAreThoseOfTheAnnotation) {
  EXPECT_EQ(krux_policy("fragmentation"), KRUX_FRAGMENTATION);
  EXPECT_EQ(krux_policy("binpack"), KRUX_BINPACK);
  EXPECT_EQ(krux_policy("spread"), KRUX_SPREAD);
  EXPECT_EQ(krux_policy("topology"), KRUX_TOPOLOGY);
  EXPECT_EQ(krux_policy("best"), -1);
  EXPECT_EQ(krux_policy(nullptr), -1);
}

TEST(Policy, BinpackTakesTheFullestAndSpreadTheEmptiest) {
  const std::vector<krux_gpu> gpus = {Card(), Card(700), Card(300)};
  EXPECT_EQ(Plan(gpus, Ask(200), KRUX_BINPACK).gpus, std::set<uint32_t>{1});
  EXPECT_EQ(Plan(gpus, Ask(200), KRUX_SPREAD).gpus, std::set<uint32_t>{0});
  const auto score = [&](uint64_t used, uint32_t policy) {
    return Plan({Card(used)}, Ask(200), policy).verdict.score;
  };
  EXPECT_GT(score(700, KRUX_BINPACK), score(0, KRUX_BINPACK));
  EXPECT_LT(score(700, KRUX_SPREAD), score(0, KRUX_SPREAD));
}

TEST(Policy, SeveralGpusComeFromOneLinkedGroup) {
  std::vector<krux_gpu> gpus(8, Card());
  for (const uint32_t pair : {0U, 1U, 2U, 3U}) {
    gpus[pair].nvlink = uint64_t{1} << (pair + 4);
    gpus[pair + 4].nvlink = uint64_t{1} << pair;
  }
  for (uint32_t i = 0; i < 8; ++i) gpus[i].numa = 1 + i % 2;
  for (uint32_t policy = 0; policy < KRUX_POLICIES; ++policy) {
    const Answer pair = Plan(gpus, Whole(2), policy);
    ASSERT_EQ(pair.gpus.size(), 2U);
    EXPECT_EQ(*pair.gpus.begin() + 4, *pair.gpus.rbegin()) << "policy " << policy;
    const Answer four = Plan(gpus, Whole(4), policy);
    for (const uint32_t gpu : four.gpus) EXPECT_EQ(gpu % 2, *four.gpus.begin() % 2);
  }
}

TEST(Policy, TopologyPrefersTheNodeWithLinksAndKeepsLinkedSetsWhole) {
  std::vector<krux_gpu> linked(2, Card());
  linked[0].nvlink = 2;
  linked[1].nvlink = 1;
  EXPECT_GT(Plan(linked, Whole(2), KRUX_TOPOLOGY).verdict.score,
            Plan({Card(), Card()}, Whole(2), KRUX_TOPOLOGY).verdict.score);
  linked.push_back(Card());
  EXPECT_EQ(Plan(linked, Whole(1), KRUX_TOPOLOGY).gpus, std::set<uint32_t>{2});
}

// Halves are typical here: what would leave less than a half on a card is put elsewhere, though
// best fit would put it there.
TEST(Policy, FragmentationKeepsGpusUsableForTypicalPods) {
  krux_mix* mix = MixOf({{Percent(50), 0, 0, 1}});
  const std::vector<krux_gpu> gpus = {Card(), Card(500)};
  EXPECT_EQ(Plan(gpus, Ask(500), KRUX_FRAGMENTATION, mix).gpus, std::set<uint32_t>{1});
  // 300 on the free card leaves 700, still usable; on the half one it strands 200.
  EXPECT_EQ(Plan(gpus, Ask(300), KRUX_FRAGMENTATION, mix).gpus, std::set<uint32_t>{0});
  EXPECT_EQ(Plan(gpus, Ask(300), KRUX_BINPACK, mix).gpus, std::set<uint32_t>{1});
  krux_mix_free(mix);
}

TEST(Policy, FragmentationSeesGpusThatHaveMemoryButNoTime) {
  krux_mix* mix = MixOf({{Percent(30, 30), 0, 0, 1}});
  // Taking 60 of 70 percent of the time would strand 400 MiB for those who want 30 percent.
  const std::vector<krux_gpu> gpus = {Card(500, 30), Card(500, 10)};
  EXPECT_EQ(Plan(gpus, Ask(100, 60), KRUX_FRAGMENTATION, mix).gpus, std::set<uint32_t>{1});
  krux_mix_free(mix);
}

TEST(Policy, FragmentationSpendsCpuWhereGpusDoNotNeedIt) {
  krux_mix* mix = MixOf({{Whole(1), 10000, 0, 1}});
  const std::vector<krux_gpu> gpus = {Card(), Card()};
  const krux_node scarce = {20000, 0, 0, 0};
  const krux_node plenty = {40000, 0, 0, 0};
  const auto score = [&](const krux_node& node) {
    return Plan(gpus, Ask(10), KRUX_FRAGMENTATION, mix, &node, 15000).verdict.score;
  };
  EXPECT_GT(score(plenty), score(scarce));
  krux_mix_free(mix);
}

TEST(Policy, FragmentationSparesModelsThatOthersNeed) {
  krux_mix* mix = MixOf({{Whole(1), 0, 1, 1}, {Whole(1), 0, 0, 1}}, {4, 4});
  krux_gpu wanted = Card();
  krux_gpu other = Card();
  other.model = 1;
  EXPECT_GT(Plan({other}, Whole(1), KRUX_FRAGMENTATION, mix).verdict.score,
            Plan({wanted}, Whole(1), KRUX_FRAGMENTATION, mix).verdict.score);
  krux_mix_free(mix);
}

TEST(Mix, RefusesNonsense) {
  EXPECT_EQ(krux_mix_new(nullptr, 0, nullptr, nullptr), nullptr);
  krux_typical t{Ask(1), 0, 0, 0};
  EXPECT_EQ(krux_mix_new(&t, 1, nullptr, nullptr), nullptr);
  t.weight = 1;
  t.container.gpus = 17;
  EXPECT_EQ(krux_mix_new(&t, 1, nullptr, nullptr), nullptr);
}

}  // namespace
