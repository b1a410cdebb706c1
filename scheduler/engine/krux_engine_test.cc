#include "scheduler/engine/krux_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using testing::HasSubstr;

krux_gpu Card(uint64_t memory, uint64_t used = 0, uint32_t cores = 0, uint32_t slots = 0) {
  krux_gpu card{};
  card.memory_mib = memory;
  card.used_memory_mib = used;
  card.used_cores = cores;
  card.used_slots = slots;
  card.slots = 16;
  card.flags = KRUX_GPU_HEALTHY;
  return card;
}

krux_pod Policy(uint32_t policy) {
  krux_pod pod{};
  pod.node_policy = policy;
  pod.gpu_policy = policy;
  return pod;
}

krux_container Ask(uint64_t memory, uint32_t cores = 0, uint32_t gpus = 1,
                   uint32_t kind = KRUX_APP) {
  return {memory, 0, cores, gpus, kind};
}
krux_container AskPercent(uint32_t percent, uint32_t kind = KRUX_APP) {
  return {0, percent, 0, 1, kind};
}
krux_container AskWhole(uint32_t gpus = 1) { return {0, 0, 100, gpus, KRUX_APP}; }

struct Answer {
  krux_verdict verdict;
  std::vector<krux_placement> placements;
  std::string reason;
};

Answer Plan(const std::vector<krux_gpu>& gpus, const std::vector<krux_container>& containers,
            const krux_pod& pod = Policy(KRUX_BINPACK)) {
  Answer answer{{}, std::vector<krux_placement>(containers.size()), ""};
  krux_plan(nullptr, nullptr, gpus.data(), gpus.size(), &pod, containers.data(), containers.size(),
            answer.placements.data(), &answer.verdict);
  char text[KRUX_MAX_SENTENCE];
  krux_reason(&answer.verdict, text, sizeof text);
  answer.reason = text;
  return answer;
}

TEST(Plan, TakesTheTightestGpu) {
  const Answer answer =
      Plan({Card(1000), Card(1000, 700, 10, 1), Card(1000, 200, 10, 1)}, {Ask(300)});
  ASSERT_EQ(answer.verdict.code, KRUX_FITS) << answer.reason;
  EXPECT_EQ(answer.placements[0].gpu[0], 1u);
  EXPECT_EQ(answer.placements[0].memory_mib[0], 300u);
}

TEST(Plan, TighterNodeScoresHigher) {
  const int64_t tight = Plan({Card(1000, 600, 60, 1)}, {Ask(400, 40)}).verdict.score;
  const int64_t loose = Plan({Card(1000)}, {Ask(400, 40)}).verdict.score;
  EXPECT_LT(loose, tight);
}

TEST(Plan, SeveralGpusOfOneContainerAreDifferentCards) {
  const Answer answer = Plan({Card(1000), Card(1000)}, {Ask(100, 10, 2)});
  ASSERT_EQ(answer.verdict.code, KRUX_FITS);
  EXPECT_NE(answer.placements[0].gpu[0], answer.placements[0].gpu[1]);
  EXPECT_EQ(Plan({Card(1000)}, {Ask(100, 10, 2)}).verdict.code, KRUX_TOO_FEW);
}

TEST(Plan, PercentIsOfEachCard) {
  const Answer answer = Plan({Card(999)}, {AskPercent(50)});
  ASSERT_EQ(answer.verdict.code, KRUX_FITS);
  EXPECT_EQ(answer.placements[0].memory_mib[0], 499u);
  EXPECT_EQ(Plan({Card(10)}, {AskPercent(1)}).placements[0].memory_mib[0], 1u);
}

TEST(Plan, WholeGpuNeedsAnEmptyOne) {
  const Answer answer = Plan({Card(1000, 1, 0, 1), Card(1000)}, {AskWhole()});
  ASSERT_EQ(answer.verdict.code, KRUX_FITS);
  EXPECT_EQ(answer.placements[0].gpu[0], 1u);
  EXPECT_EQ(answer.placements[0].memory_mib[0], 1000u);
  EXPECT_THAT(Plan({Card(1000, 1, 0, 1)}, {AskWhole()}).reason, HasSubstr("had alone"));
}

TEST(Plan, HundredCoresNeedAnEmptyGpuAndKeepOthersOut) {
  EXPECT_EQ(Plan({Card(1000, 1, 0, 1)}, {Ask(10, 100)}).verdict.code, KRUX_SHORT);
  EXPECT_EQ(Plan({Card(1000)}, {Ask(10, 100)}).verdict.code, KRUX_FITS);
  krux_gpu taken = Card(1000, 10, 100, 1);
  taken.flags |= KRUX_GPU_EXCLUSIVE;
  EXPECT_THAT(Plan({taken}, {Ask(10)}).reason, HasSubstr("had alone"));
  // Full by a sum of 100 is not held alone: who asks for no guarantee may use what is left.
  EXPECT_EQ(Plan({Card(1000, 10, 100, 2)}, {Ask(10)}).verdict.code, KRUX_FITS);
}

// A sort between two containers must not shift which card is meant; in both orders each finds its
// card.
TEST(Plan, ContainersOfOnePodAreCountedStepByStep) {
  const std::vector<krux_gpu> gpus = {Card(10), Card(10)};
  for (const auto& asks : {std::vector{Ask(10), Ask(1)}, std::vector{Ask(1), Ask(10)}}) {
    const Answer answer = Plan(gpus, asks);
    ASSERT_EQ(answer.verdict.code, KRUX_FITS) << answer.reason;
    EXPECT_NE(answer.placements[0].gpu[0], answer.placements[1].gpu[0]);
  }
}

TEST(Plan, SearchesOnWhenBestFitFails) {
  // Best fit puts 6 on the card of 9, where no 4 has room beside it: only 6+4 and 5+4 works.
  const Answer answer = Plan({Card(10), Card(9)}, {Ask(6), Ask(5), Ask(4), Ask(4)});
  EXPECT_EQ(answer.verdict.code, KRUX_FITS) << answer.reason;
}

TEST(Plan, InitContainersShareTheirTimeWithTheApps) {
  const Answer answer =
      Plan({Card(1000)}, {Ask(900, 90, 1, KRUX_INIT), Ask(800, 0, 1, KRUX_INIT), Ask(1000, 50)});
  EXPECT_EQ(answer.verdict.code, KRUX_FITS) << answer.reason;
}

TEST(Plan, SidecarsRunBesideLaterInitsAndApps) {
  const auto sidecar = Ask(300, 0, 1, KRUX_SIDECAR);
  const auto init = Ask(800, 0, 1, KRUX_INIT);
  EXPECT_EQ(Plan({Card(1000)}, {init, sidecar, Ask(700)}).verdict.code, KRUX_FITS);
  EXPECT_EQ(Plan({Card(1000)}, {sidecar, init, Ask(700)}).verdict.code, KRUX_SHORT);
  EXPECT_EQ(Plan({Card(1000)}, {init, sidecar, Ask(701)}).verdict.code, KRUX_SHORT);
}

TEST(Plan, UnhealthyAndOvercommittedGpusTakeNobody) {
  krux_gpu sick = Card(1000);
  sick.flags = 0;
  EXPECT_EQ(Plan({sick}, {Ask(1)}).verdict.code, KRUX_NO_HEALTHY);
  EXPECT_EQ(Plan({sick, Card(1000)}, {Ask(1)}).placements[0].gpu[0], 1u);
  EXPECT_THAT(Plan({Card(1000, 1001, 0, 2)}, {Ask(1)}).reason, HasSubstr("over-committed"));
  EXPECT_THAT(Plan({Card(1000, 10, 101, 2)}, {Ask(1)}).reason, HasSubstr("over-committed"));
}

TEST(Plan, ReasonsHaveTheNumbers) {
  EXPECT_EQ(Plan({}, {Ask(1)}).reason, "node(s) without Krux GPUs");
  EXPECT_EQ(Plan({Card(1000, 900, 0, 1), Card(1000, 500, 0, 1)}, {Ask(600)}).reason,
            "node(s) 100 MiB short on the best GPU");
  EXPECT_EQ(Plan({Card(1000, 0, 80, 1)}, {Ask(600, 30)}).reason,
            "node(s) 10 percent of GPU time short on the best GPU");
  EXPECT_EQ(Plan({Card(1000, 500, 80, 1)}, {Ask(600, 30)}).reason,
            "node(s) 100 MiB and 10 percent of GPU time short on the best GPU");
  EXPECT_EQ(Plan({Card(1000, 16, 0, 16)}, {Ask(1)}).reason,
            "node(s) without a free slot on the best GPU");
  EXPECT_EQ(Plan({Card(1000), Card(1000, 900, 0, 1)}, {Ask(200, 0, 2)}).reason,
            "node(s) 100 MiB short on the next best GPU (1 of 2 GPUs fit)");
  EXPECT_EQ(Plan({Card(1000), Card(500)}, {Ask(2000)}).reason,
            "node(s) whose largest GPU has 1000 MiB, 2000 MiB on 1 GPU(s) asked");
  EXPECT_EQ(Plan({Card(1000)}, {Ask(10, 0, 2)}).reason,
            "node(s) with 1 healthy GPU(s), a container asks for 2");
}

// Sums are whole MiB: no rounding lets one more in (24 x 2000 on 46068).
TEST(Plan, NoRoundingLetsOneMoreIn) {
  krux_gpu card = Card(46068);
  card.slots = 64;
  int placed = 0;
  while (Plan({card}, {Ask(2000)}).verdict.code == KRUX_FITS) {
    card.used_memory_mib += 2000;
    ++card.used_slots;
    ++placed;
  }
  EXPECT_EQ(placed, 23);
}

TEST(Plan, OddSizesAreCountedExactly) {
  for (const uint64_t card : {1ULL, 46068ULL, 46069ULL, 143771ULL}) {
    for (const uint64_t ask : {1ULL, 1999ULL, 2000ULL, 46068ULL}) {
      krux_gpu gpu = Card(card);
      gpu.slots = 1U << 20;
      // All but one of those that fit are there.
      gpu.used_memory_mib = card / ask == 0 ? 0 : (card / ask - 1) * ask;
      const bool fits = card >= ask;
      EXPECT_EQ(Plan({gpu}, {Ask(ask)}).verdict.code == KRUX_FITS, fits) << card << " " << ask;
      if (!fits) continue;
      gpu.used_memory_mib += ask;
      EXPECT_EQ(Plan({gpu}, {Ask(ask)}).verdict.code, KRUX_SHORT) << card << " " << ask;
    }
  }
}

// Four cards of 23 GiB and five pods of 10 GiB: two of them share a card, and each round of leaving
// and coming finds room again, whatever the policy.
TEST(Plan, NoPodWaitsWhileACardCanHoldIt) {
  for (uint32_t policy = 0; policy < KRUX_POLICIES; ++policy) {
    std::vector<krux_gpu> gpus(4, Card(23552));
    std::vector<uint32_t> pods;
    const auto place = [&] {
      const Answer answer = Plan(gpus, {Ask(10240)}, Policy(policy));
      ASSERT_EQ(answer.verdict.code, KRUX_FITS) << answer.reason;
      pods.push_back(answer.placements[0].gpu[0]);
      gpus[pods.back()].used_memory_mib += 10240;
      ++gpus[pods.back()].used_slots;
    };
    for (int i = 0; i < 5; ++i) place();
    for (size_t round = 0; round < 50; ++round) {
      const size_t gone = round % pods.size();
      gpus[pods[gone]].used_memory_mib -= 10240;
      --gpus[pods[gone]].used_slots;
      pods.erase(pods.begin() + static_cast<std::ptrdiff_t>(gone));
      place();
    }
    for (int i = 0; i < 3; ++i) place();  // eight fit
    EXPECT_EQ(Plan(gpus, {Ask(10240)}, Policy(policy)).verdict.code, KRUX_SHORT);
  }
}

TEST(Plan, PodWithoutGpusFitsAnywhere) {
  EXPECT_EQ(Plan({}, {}).verdict.code, KRUX_FITS);
  EXPECT_EQ(Plan({}, {Ask(0, 0, 0)}).verdict.code, KRUX_FITS);
}

TEST(Plan, NonsenseIsRefused) {
  EXPECT_EQ(Plan({Card(KRUX_MAX_MEMORY_MIB + 1)}, {Ask(1)}).verdict.code, KRUX_BAD_ARGUMENT);
  EXPECT_EQ(Plan({Card(1)}, {Ask(1, 101)}).verdict.code, KRUX_BAD_ARGUMENT);
  EXPECT_EQ(Plan({Card(1)}, {Ask(1, 0, 17)}).verdict.code, KRUX_BAD_ARGUMENT);
  EXPECT_EQ(Plan({Card(1)}, {Ask(1, 0, 1, 3)}).verdict.code, KRUX_BAD_ARGUMENT);
  EXPECT_EQ(Plan(std::vector<krux_gpu>(65, Card(1)), {Ask(1)}).verdict.code, KRUX_BAD_ARGUMENT);
  EXPECT_EQ(Plan({Card(1)}, std::vector<krux_container>(65, Ask(1))).verdict.code,
            KRUX_BAD_ARGUMENT);
}

TEST(Peak, IsTheBusiestPhaseOfEachGpu) {
  const std::vector<krux_container> containers = {Ask(500, 50, 1, KRUX_INIT),
                                                  Ask(100, 10, 1, KRUX_SIDECAR),
                                                  Ask(200, 100, 1, KRUX_INIT), Ask(300, 20)};
  const std::vector<krux_placement> placements = {
      {1, {0}, {500}}, {1, {0}, {100}}, {1, {1}, {200}}, {1, {0}, {300}}};
  krux_share shares[2];
  ASSERT_EQ(krux_peak(containers.data(), placements.data(), 4, shares, 2), KRUX_FITS);
  EXPECT_EQ(shares[0].memory_mib, 500u);
  EXPECT_EQ(shares[0].cores, 50u);
  EXPECT_EQ(shares[0].slots, 2u);
  EXPECT_EQ(shares[0].exclusive, 0u);
  EXPECT_EQ(shares[1].memory_mib, 200u);
  EXPECT_EQ(shares[1].exclusive, 1u);
}

TEST(Peak, RefusesAGpuThatIsNotThere) {
  const krux_container container = Ask(1);
  const krux_placement placement = {1, {2}, {1}};
  krux_share shares[2];
  EXPECT_EQ(krux_peak(&container, &placement, 1, shares, 2), KRUX_BAD_ARGUMENT);
}

}  // namespace
