// Random schedules in virtual time: arrivals, deaths, kernel lengths, bursts, priorities, policies,
// changed shares. World checks exclusiveness at every grant; here the rest of the invariants.
#include <gtest/gtest.h>

#include <random>

#include "agent/arbiter_world.h"

namespace krux::agent {
namespace {

class Dice {
 public:
  explicit Dice(uint32_t seed) : random_(seed) {}
  Nanos Between(Nanos low, Nanos high) {
    return std::uniform_int_distribution<Nanos>(low, high)(random_);
  }
  bool OneIn(int n) { return Between(1, n) == 1; }

 private:
  std::mt19937 random_;
};

constexpr Nanos kRun = 2 * kSecond;
constexpr Nanos kLengths[] = {50 * kMicrosecond, 300 * kMicrosecond, 2 * kMillisecond,
                              20 * kMillisecond};
constexpr uint32_t kSchedules = 1250;  // of each part

Shares RandomShares(Dice& dice, uint32_t* left) {
  Shares shares;
  shares.cores = static_cast<uint32_t>(dice.Between(0, std::min<Nanos>(*left, 60)));
  *left -= shares.cores;
  shares.memory_bytes = static_cast<uint64_t>(dice.Between(1, 100));
  if (shares.cores > 0 && dice.OneIn(3)) shares.policy = ComputePolicy::kFixed;
  if (dice.OneIn(6)) shares.policy = ComputePolicy::kNone;
  if (dice.OneIn(4)) shares.priority = Priority::kLatency;
  if (dice.OneIn(6)) shares.priority = Priority::kBatch;
  return shares;
}

ClientPlan RandomClient(Dice& dice, uint32_t* left) {
  ClientPlan plan;
  plan.shares = RandomShares(dice, left);
  plan.kernel = kLengths[dice.Between(0, 3)];
  if (dice.OneIn(2)) {
    plan.burst = dice.Between(1, 30) * kMillisecond;
    plan.gap = dice.Between(0, 40) * kMillisecond;
  }
  if (dice.OneIn(2)) plan.arrives = dice.Between(0, kSecond);
  if (dice.OneIn(4)) plan.leaves = plan.arrives + dice.Between(0, kSecond);
  plan.never_drains = dice.OneIn(40);
  return plan;
}

// A second's use of a `fixed` tenant: its cores, one kernel, and what may be carried over from the
// period before.
void CheckCeiling(const World& world, World::Id id) {
  const ClientPlan& plan = world.client(id).plan;
  if (plan.shares.policy != ComputePolicy::kFixed || plan.never_drains) return;
  const double cores = plan.shares.cores;
  const double carried = 2 * (cores * 0.05) + 0.2 + 0.2;
  const double kernel = 100.0 * static_cast<double>(plan.kernel) / kSecond;
  for (Nanos from = 0; from + kSecond <= kRun; from += 50 * kMillisecond) {
    ASSERT_LE(world.Percent(id, from, from + kSecond), cores + carried + kernel);
  }
}

void CheckProgress(const World& world, World::Id id, size_t clients) {
  const World::Client& client = world.client(id);
  if (client.plan.shares.policy == ComputePolicy::kNone || client.plan.never_drains) return;
  const Nanos there = std::min(client.plan.leaves, kRun) - client.plan.arrives;
  // Everybody else may have a turn of a long kernel and one may use up the grace; little shares and
  // debts make it longer, so only tenants with a real promise are judged here.
  if (client.plan.shares.cores < 10 || clients > 4 || there < kRun * 2 / 3) return;
  ASSERT_GT(client.gpu_time + (client.running ? 1 : 0), 0);
}

void RunOne(uint32_t seed) {
  Dice dice(seed);
  World world;
  uint32_t left = 100;
  std::vector<World::Id> ids;
  const auto clients = static_cast<size_t>(dice.Between(1, 6));
  bool hostile = false;
  bool changes = false;
  for (size_t i = 0; i < clients; ++i) {
    const ClientPlan plan = RandomClient(dice, &left);
    hostile |= plan.never_drains;
    ids.push_back(world.Add(plan));
    if (!dice.OneIn(6)) continue;
    Shares changed = plan.shares;
    changed.cores = static_cast<uint32_t>(dice.Between(1, 20));
    world.SetSharesAt(dice.Between(0, kRun), ids.back(), changed);
    changes = true;
  }
  for (int i = dice.OneIn(3) ? 6 : 0; i > 0; --i) {
    world.SetTogetherAt(dice.Between(0, kRun), dice.OneIn(2));
  }
  world.RunUntil(kRun);
  if (::testing::Test::HasFatalFailure()) return;
  if (!hostile) {
    ASSERT_LE(world.idle_while_wanted(), kRun / 100) << "the card stood idle though it was wanted";
  }
  ASSERT_LE(world.steps(), 200'000U) << "too many decisions for two seconds";
  for (const auto id : ids) {
    if (!changes) CheckCeiling(world, id);
    if (!hostile) CheckProgress(world, id, clients);
  }
}

// In parts, so that they run side by side: 10,000 schedules together.
class ArbiterRandom : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ArbiterRandom, SchedulesKeepTheInvariants) {
  for (uint32_t seed = GetParam() * kSchedules; seed < (GetParam() + 1) * kSchedules; ++seed) {
    SCOPED_TRACE(seed);
    RunOne(seed);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, ArbiterRandom, ::testing::Range(0U, 8U));

}  // namespace
}  // namespace krux::agent
