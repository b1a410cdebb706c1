#include "agent/arbiter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "agent/arbiter_world.h"

namespace krux::agent {
namespace {

using Kind = Arbiter::Action::Kind;

Shares Balance(uint32_t cores, Priority priority = Priority::kNormal) {
  return Shares{cores, ComputePolicy::kBalance, priority, kSecond};
}
Shares Fixed(uint32_t cores) { return Shares{cores, ComputePolicy::kFixed, Priority::kNormal, 1}; }
Shares None() { return Shares{0, ComputePolicy::kNone, Priority::kNormal, 1}; }

ClientPlan Saturating(const Shares& shares, Nanos kernel) {
  ClientPlan plan;
  plan.shares = shares;
  plan.kernel = kernel;
  return plan;
}

constexpr Nanos kKernels[] = {5 * kMicrosecond, 50 * kMicrosecond, 2 * kMillisecond,
                              20 * kMillisecond};

struct Mix {
  std::vector<uint32_t> cores;
  std::vector<Nanos> kernels;
};

void PrintTo(const Mix& mix, std::ostream* out) {
  for (size_t i = 0; i < mix.cores.size(); ++i) {
    *out << mix.cores[i] << "%:" << mix.kernels[i] / kMicrosecond << "us ";
  }
}

class SharesHold : public ::testing::TestWithParam<std::tuple<Mix, ComputePolicy>> {};

TEST_P(SharesHold, WithinHalfAPointAndTheCardIsFull) {
  const auto& [mix, policy] = GetParam();
  World world;
  std::vector<World::Id> ids;
  for (size_t i = 0; i < mix.cores.size(); ++i) {
    Shares shares = Balance(mix.cores[i]);
    shares.policy = policy;
    ids.push_back(world.Add(Saturating(shares, mix.kernels[i])));
  }
  const Nanos from = kSecond;
  const Nanos to = 21 * kSecond;
  world.RunUntil(to);
  double total = 0;
  bool short_kernels = true;
  for (size_t i = 0; i < ids.size(); ++i) {
    const double got = world.Percent(ids[i], from, to);
    EXPECT_NEAR(got, mix.cores[i], 0.5) << "tenant " << i;
    total += got;
    short_kernels &= mix.kernels[i] <= 2 * kMillisecond;
  }
  EXPECT_GE(total, 99.0);
  if (!short_kernels) return;
  const Nanos bound = static_cast<Nanos>(std::max<size_t>(2, ids.size() - 1)) * 30 * kMillisecond;
  for (const auto id : ids) EXPECT_LE(world.client(id).longest_gap, bound) << id;
}

std::vector<Mix> Mixes() {
  std::vector<Mix> mixes;
  for (const auto& cores :
       std::vector<std::vector<uint32_t>>{{30, 70}, {50, 50}, {10, 90}, {20, 30, 50}}) {
    for (const Nanos kernel : kKernels) mixes.push_back({cores, std::vector(cores.size(), kernel)});
    std::vector<Nanos> mixed(cores.size(), 50 * kMicrosecond);
    mixed.back() = 20 * kMillisecond;
    mixes.push_back({cores, mixed});
    std::swap(mixed.front(), mixed.back());
    mixes.push_back({cores, mixed});
  }
  mixes.push_back({{10, 20, 30, 40}, {50'000, 2'000'000, 2'000'000, 50'000}});
  return mixes;
}

INSTANTIATE_TEST_SUITE_P(Pairs, SharesHold,
                         ::testing::Combine(::testing::ValuesIn(Mixes()),
                                            ::testing::Values(ComputePolicy::kBalance,
                                                              ComputePolicy::kFixed)));

struct Pair {
  uint32_t small;
  Nanos kernel;
};

class PairWithQueues : public ::testing::TestWithParam<Pair> {};

// What is in flight when a lease ends is part of the turn: else the smaller tenant overruns its own
// by so much that the other one needs a turn longer than max_gap to make up for it.
TEST_P(PairWithQueues, KeepsItsSharesAndNobodyWaitsLong) {
  const auto [small, kernel] = GetParam();
  World world;
  std::vector<World::Id> ids;
  for (const uint32_t cores : {small, 100 - small}) {
    ClientPlan plan = Saturating(Balance(cores), kernel);
    plan.in_flight = std::max(kernel, 3 * kMillisecond);
    ids.push_back(world.Add(plan));
  }
  world.RunUntil(21 * kSecond);
  EXPECT_NEAR(world.Percent(ids[0], kSecond, 21 * kSecond), small, 0.5);
  EXPECT_NEAR(world.Percent(ids[1], kSecond, 21 * kSecond), 100 - small, 0.5);
  for (const auto id : ids) EXPECT_LE(world.client(id).longest_gap, 60 * kMillisecond);
}

INSTANTIATE_TEST_SUITE_P(Pairs, PairWithQueues,
                         ::testing::Values(Pair{10, 50 * kMicrosecond}, Pair{10, 2 * kMillisecond},
                                           Pair{30, 50 * kMicrosecond}, Pair{30, 2 * kMillisecond},
                                           Pair{50, 50 * kMicrosecond},
                                           Pair{50, 2 * kMillisecond}));

class CeilingHolds : public ::testing::TestWithParam<std::tuple<uint32_t, Nanos>> {};

TEST_P(CeilingHolds, OfALoneTenant) {
  const auto [cores, kernel] = GetParam();
  World world;
  const auto id = world.Add(Saturating(Fixed(cores), kernel));
  world.RunUntil(21 * kSecond);
  EXPECT_NEAR(world.Percent(id, kSecond, 21 * kSecond), cores, 0.5);
  for (Nanos from = 0; from < 20 * kSecond; from += 7 * kMillisecond) {
    const double got = world.Percent(id, from, from + kSecond) / 100;
    const double kernels = static_cast<double>(kernel + 2 * kMillisecond) / kSecond;
    ASSERT_LE(got, cores / 100.0 + kernels) << "second from " << from;
  }
}

INSTANTIATE_TEST_SUITE_P(Ceilings, CeilingHolds,
                         ::testing::Combine(::testing::Values(1, 5, 10, 25, 30, 50, 75, 90, 99),
                                            ::testing::ValuesIn(kKernels)));

TEST(Arbiter, BalanceUsesWhatAFixedTenantLeaves) {
  World world;
  const auto fixed = world.Add(Saturating(Fixed(30), 2 * kMillisecond));
  const auto balance = world.Add(Saturating(Balance(20), 2 * kMillisecond));
  world.RunUntil(11 * kSecond);
  EXPECT_NEAR(world.Percent(fixed, kSecond, 11 * kSecond), 30, 0.5);
  EXPECT_NEAR(world.Percent(balance, kSecond, 11 * kSecond), 70, 1);
}

TEST(Arbiter, LoneTenantHoldsWithoutEndUntilSomebodyWants) {
  Arbiter arbiter({});
  arbiter.Add(1, Balance(30), 0);
  arbiter.Add(2, Balance(70), 0);
  arbiter.OnWant(1, 10);
  EXPECT_THAT(arbiter.Decide(10),
              ::testing::ElementsAre(Arbiter::Action{Kind::kGrant, 1, Arbiter::kOpenEnd}));
  EXPECT_EQ(arbiter.NextTimer(10), Arbiter::kOpenEnd);
  arbiter.OnWant(2, kSecond);
  const auto actions = arbiter.Decide(kSecond);
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0].kind, Kind::kEnd);
  EXPECT_TRUE(arbiter.Decide(kSecond + 1).empty()) << "not before the drain";
  arbiter.OnDrained(1, kSecond + kMillisecond);
  const auto next = arbiter.Decide(kSecond + kMillisecond);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].kind, Kind::kGrant);
  EXPECT_EQ(next[0].tenant, 2U);
  EXPECT_NE(next[0].deadline, Arbiter::kOpenEnd) << "the first one will ask again";
}

TEST(Arbiter, IdleHolderHandsOnAtOnceAndKeepsTheLeaseWhenAlone) {
  Arbiter arbiter({});
  arbiter.Add(1, Balance(50), 0);
  arbiter.Add(2, Balance(50), 0);
  arbiter.OnWant(1, 10);
  arbiter.Decide(10);
  arbiter.OnIdle(1, 1000);
  EXPECT_TRUE(arbiter.Decide(1000).empty());
  EXPECT_TRUE(arbiter.Look(1, 1000).parked);
  arbiter.OnWant(2, 2000);
  EXPECT_THAT(arbiter.Decide(2000), ::testing::ElementsAre(Arbiter::Action{Kind::kEnd, 1, 2000}));
  arbiter.OnDrained(1, 2000);
  const auto next = arbiter.Decide(2000);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].tenant, 2U);
  EXPECT_EQ(arbiter.Look(1, 3000).used, 990) << "a parked lease costs nothing";
}

TEST(Arbiter, ParkedLeaseIsTakenBackAfterAWhile) {
  Arbiter arbiter({});
  arbiter.Add(1, Balance(50), 0);
  arbiter.OnWant(1, 10);
  arbiter.Decide(10);
  arbiter.OnIdle(1, 1000);
  arbiter.Decide(1000);
  const Nanos timer = arbiter.NextTimer(1000);
  EXPECT_EQ(timer, 1000 + kSecond);
  EXPECT_THAT(arbiter.Decide(timer), ::testing::ElementsAre(Arbiter::Action{Kind::kEnd, 1, timer}));
}

TEST(Arbiter, ATenantThatNeverDrainsDelaysOthersByTheGraceOnly) {
  World world;
  ClientPlan hostile = Saturating(Balance(50), 2 * kMillisecond);
  hostile.never_drains = true;
  const auto bad = world.Add(hostile);
  const auto good = world.Add(Saturating(Balance(50), 2 * kMillisecond));
  world.RunUntil(5 * kSecond);
  EXPECT_TRUE(world.arbiter().Look(bad, world.now()).straggling);
  EXPECT_LE(world.client(good).longest_gap, 125 * kMillisecond);
  EXPECT_GE(world.Percent(good, kSecond, 5 * kSecond), 95);
}

TEST(Arbiter, AStragglerThatWantsAgainPaysItsDebtFirst) {
  Arbiter arbiter({});
  arbiter.Add(1, Balance(50), 0);
  arbiter.Add(2, Balance(50), 0);
  arbiter.OnWant(1, 0);
  arbiter.Decide(0);
  arbiter.OnWant(2, 10 * kMillisecond);
  arbiter.Decide(10 * kMillisecond);
  const Nanos late = 10 * kMillisecond + Arbiter::Options().grace;
  ASSERT_EQ(arbiter.NextTimer(20 * kMillisecond), late);
  const auto next = arbiter.Decide(late);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].tenant, 2U);
  EXPECT_TRUE(arbiter.Look(1, late).straggling);
  arbiter.OnWant(1, late);
  const auto extended = arbiter.Decide(late);
  ASSERT_EQ(extended.size(), 1U);
  EXPECT_EQ(extended[0].kind, Kind::kExtend);
  EXPECT_GE(extended[0].deadline, late + 100 * kMillisecond) << "the debt is worked off first";
}

TEST(Arbiter, NoneRunsOnlyWhenNobodyElseWants) {
  World world;
  const auto none = world.Add(Saturating(None(), 2 * kMillisecond));
  ClientPlan half = Saturating(Balance(50), 2 * kMillisecond);
  half.burst = 20 * kMillisecond;
  half.gap = 20 * kMillisecond;
  const auto busy = world.Add(half);
  world.RunUntil(11 * kSecond);
  EXPECT_GE(world.Percent(busy, kSecond, 11 * kSecond), 45);
  EXPECT_GE(world.Percent(none, kSecond, 11 * kSecond), 42);
}

TEST(Arbiter, NoneStarvesBesideASaturatingTenantAndNobodyBesideNone) {
  World world;
  const auto none = world.Add(Saturating(None(), 2 * kMillisecond));
  const auto busy = world.Add(Saturating(Balance(5), 2 * kMillisecond));
  world.RunUntil(5 * kSecond);
  EXPECT_GE(world.Percent(busy, kSecond, 5 * kSecond), 99);
  EXPECT_LE(world.Percent(none, kSecond, 5 * kSecond), 0.1);
}

TEST(Arbiter, TenantsWithoutCoresShareByMemoryAndNeverStarve) {
  World world;
  ClientPlan small = Saturating(Balance(0), 2 * kMillisecond);
  small.shares.memory_bytes = 1000;
  ClientPlan large = small;
  large.shares.memory_bytes = 3000;
  const auto a = world.Add(small);
  const auto b = world.Add(large);
  const auto promised = world.Add(Saturating(Balance(50), 2 * kMillisecond));
  world.RunUntil(31 * kSecond);
  const double got_a = world.Percent(a, kSecond, 31 * kSecond);
  const double got_b = world.Percent(b, kSecond, 31 * kSecond);
  EXPECT_NEAR(got_b / got_a, 3, 0.3);
  EXPECT_GE(got_a, 1);
  EXPECT_GE(world.Percent(promised, kSecond, 31 * kSecond), 85);
}

TEST(Arbiter, ATenantWithoutCoresCostsPromisesOfAHundredPercentHalfAPointAtMost) {
  World world;
  const auto a = world.Add(Saturating(Balance(30), 50 * kMicrosecond));
  const auto b = world.Add(Saturating(Balance(70), 50 * kMicrosecond));
  const auto guest = world.Add(Saturating(Balance(0), 50 * kMicrosecond));
  world.RunUntil(21 * kSecond);
  EXPECT_NEAR(world.Percent(a, kSecond, 21 * kSecond), 30, 0.75);
  EXPECT_NEAR(world.Percent(b, kSecond, 21 * kSecond), 70, 1.0);
  EXPECT_GT(world.Percent(guest, kSecond, 21 * kSecond), 0.2);
}

TEST(Arbiter, LatencyTenantWaitsForOneKernelOnly) {
  World world;
  world.Add(Saturating(Balance(70), 2 * kMillisecond));
  ClientPlan requests = Saturating(Balance(30, Priority::kLatency), 50 * kMicrosecond);
  requests.burst = 5 * kMillisecond;
  requests.gap = 45 * kMillisecond;
  requests.arrives = 100 * kMillisecond;
  const auto id = world.Add(requests);
  world.RunUntil(10 * kSecond);
  const auto& runs = world.client(id).runs;
  ASSERT_GT(runs.size(), 150U);
  size_t in_one_piece = 0;
  for (const auto& [begin, end] : runs) in_one_piece += (end - begin) >= 5 * kMillisecond ? 1 : 0;
  EXPECT_GE(in_one_piece, runs.size() - 1);
  // 5 ms of work and 45 ms of pause; the rest of the period is waiting.
  const double period = 9.9 * static_cast<double>(kSecond) / static_cast<double>(runs.size());
  EXPECT_LE(period, static_cast<double>(52'400 * kMicrosecond));
}

TEST(Arbiter, ASaturatingLatencyTenantGetsNoMoreThanItsShare) {
  World world;
  const auto other = world.Add(Saturating(Balance(70), 2 * kMillisecond));
  const auto id = world.Add(Saturating(Balance(30, Priority::kLatency), 50 * kMicrosecond));
  world.RunUntil(21 * kSecond);
  EXPECT_NEAR(world.Percent(id, kSecond, 21 * kSecond), 30, 1);
  EXPECT_GE(world.Percent(other, kSecond, 21 * kSecond), 67.5);
}

TEST(Arbiter, ComingBackFromIdlenessBringsNoCredit) {
  World world;
  const auto a = world.Add(Saturating(Balance(50), 2 * kMillisecond));
  ClientPlan late = Saturating(Balance(50), 2 * kMillisecond);
  late.arrives = 5 * kSecond;
  const auto b = world.Add(late);
  world.RunUntil(6 * kSecond);
  EXPECT_GE(world.Percent(a, 0, 5 * kSecond), 99);
  EXPECT_NEAR(world.Percent(a, 5 * kSecond, 6 * kSecond), 50, 2.5);
  EXPECT_NEAR(world.Percent(b, 5 * kSecond, 6 * kSecond), 50, 2.5);
}

TEST(Arbiter, ChangedSharesAreInForceWithinFiftyMilliseconds) {
  for (const auto policy : {ComputePolicy::kBalance, ComputePolicy::kFixed}) {
    World world;
    Shares high = Balance(80);
    Shares low = Balance(20);
    high.policy = low.policy = policy;
    const auto a = world.Add(Saturating(high, 2 * kMillisecond));
    const auto b = world.Add(Saturating(low, 2 * kMillisecond));
    world.SetSharesAt(2 * kSecond, a, low);
    world.SetSharesAt(2 * kSecond, b, high);
    world.RunUntil(4 * kSecond);
    EXPECT_NEAR(world.Percent(a, kSecond, 2 * kSecond), 80, 3);
    const Nanos from = 2 * kSecond + 50 * kMillisecond;
    EXPECT_NEAR(world.Percent(a, from, from + kSecond), 20, 3);
    EXPECT_NEAR(world.Percent(b, from, from + kSecond), 80, 3);
  }
}

TEST(Arbiter, DeathOfTheHolderFreesTheCardAtOnce) {
  World world;
  ClientPlan dying = Saturating(Balance(50), 20 * kMillisecond);
  dying.leaves = kSecond + 3 * kMillisecond;
  world.Add(dying);
  const auto b = world.Add(Saturating(Balance(50), 50 * kMicrosecond));
  world.RunUntil(2 * kSecond);
  EXPECT_GE(world.Percent(b, kSecond + 4 * kMillisecond, 2 * kSecond), 99.5);
}

TEST(Arbiter, WantThatCrossesAGrantDoesNotQueueTheTenantAgain) {
  Arbiter arbiter({});
  arbiter.Add(1, Balance(50), 0);
  arbiter.OnWant(1, 0);
  arbiter.Decide(0);
  arbiter.OnWant(1, 100);
  EXPECT_FALSE(arbiter.Look(1, 100).waiting);
}

TEST(Arbiter, TogetherAllRunAtOnceAndEachPaysItsPart) {
  Arbiter arbiter({});
  arbiter.Add(1, Balance(30), 0);
  arbiter.Add(2, Balance(70), 0);
  arbiter.OnWant(1, 0);
  arbiter.OnWant(2, 0);
  arbiter.Decide(0);
  arbiter.SetTogether(true, 0);
  EXPECT_EQ(arbiter.Decide(0).size(), 2U) << "one is let in, one goes on without an end";
  const Nanos later = kSecond;
  EXPECT_EQ(arbiter.Look(1, later).used, later / 2);
  EXPECT_EQ(arbiter.Look(2, later).used, later / 2);
  arbiter.SetTogether(false, later);
  const auto ends = arbiter.Decide(later);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].kind, Kind::kEnd);
  EXPECT_EQ(ends[1].kind, Kind::kEnd);
  arbiter.OnWant(1, later);
  arbiter.OnWant(2, later);
  arbiter.OnDrained(1, later);
  EXPECT_TRUE(arbiter.Decide(later).empty()) << "the other one has not drained";
  arbiter.OnDrained(2, later);
  EXPECT_EQ(arbiter.Decide(later).size(), 1U);
}

TEST(Arbiter, ATenantThatMustTakeTurnsEndsATimeTogether) {
  for (const Shares& shares : {Fixed(20), None(), Balance(20, Priority::kLatency)}) {
    Arbiter arbiter({});
    arbiter.Add(1, Balance(30), 0);
    arbiter.Add(2, Balance(30), 0);
    arbiter.Add(3, shares, 0);
    arbiter.OnWant(1, 0);
    arbiter.OnWant(2, 0);
    arbiter.SetTogether(true, 0);
    EXPECT_EQ(arbiter.Decide(0).size(), 2U);
    EXPECT_TRUE(arbiter.MayBeTogether());
    arbiter.OnWant(3, kMillisecond);
    EXPECT_EQ(arbiter.Decide(kMillisecond).size(), 2U);
    EXPECT_FALSE(arbiter.together());
  }
}

TEST(Arbiter, AMomentTogetherIsSettledInTurns) {
  World world;
  const auto a = world.Add(Saturating(Balance(30), 2 * kMillisecond));
  const auto b = world.Add(Saturating(Balance(70), 2 * kMillisecond));
  world.SetTogetherAt(2 * kSecond, true);
  world.SetTogetherAt(2 * kSecond + 80 * kMillisecond, false);
  world.RunUntil(4 * kSecond);
  // The world runs both at full speed while together; what counts is that the turns after it repay.
  const Nanos after = 2 * kSecond + 80 * kMillisecond;
  EXPECT_LT(world.Percent(a, after, after + kSecond), 29.3);
  EXPECT_GT(world.Percent(b, after, after + kSecond), 70.2);
}

TEST(Arbiter, EventsOfUnknownTenantsChangeNothing) {
  Arbiter arbiter({});
  arbiter.OnWant(7, 0);
  arbiter.OnDrained(7, 0);
  arbiter.OnIdle(7, 0);
  arbiter.OnAbsent(7, 0);
  arbiter.SetShares(7, Balance(10), 0);
  arbiter.Remove(7, 0);
  EXPECT_TRUE(arbiter.Decide(0).empty());
  EXPECT_EQ(arbiter.NextTimer(0), Arbiter::kOpenEnd);
}

TEST(Arbiter, SixteenEqualTenantsShareEquallyWithoutLongGaps) {
  World world;
  std::vector<World::Id> ids;
  for (int i = 0; i < 16; ++i) ids.push_back(world.Add(Saturating(Balance(6), 2 * kMillisecond)));
  world.RunUntil(11 * kSecond);
  for (const auto id : ids) {
    EXPECT_NEAR(world.Percent(id, kSecond, 11 * kSecond), 6.25, 0.4);
    EXPECT_LE(world.client(id).longest_gap, 15 * 30 * kMillisecond);
  }
}

TEST(Arbiter, MeterShowsTheShareOfTheLastSecondAndMinute) {
  World world;
  const auto a = world.Add(Saturating(Fixed(30), 2 * kMillisecond));
  world.RunUntil(70 * kSecond);
  const auto view = world.arbiter().Look(a, world.now());
  EXPECT_NEAR(view.share_1s, 0.30, 0.02);
  EXPECT_NEAR(view.share_60s, 0.30, 0.01);
}

TEST(Arbiter, MeterOfAYoungTenantCountsItsOwnTimeOnly) {
  Arbiter arbiter({});
  arbiter.Add(1, Balance(50), 100 * kSecond);
  arbiter.OnWant(1, 100 * kSecond);
  arbiter.Decide(100 * kSecond);
  const auto view = arbiter.Look(1, 100 * kSecond + 500 * kMillisecond);
  EXPECT_NEAR(view.share_1s, 1, 1e-6);
  EXPECT_NEAR(view.share_60s, 1, 1e-6);
  EXPECT_EQ(view.used, 500 * kMillisecond);
}

}  // namespace
}  // namespace krux::agent
