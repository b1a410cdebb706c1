#include "agent/lease_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <thread>

#include "agent/time_windows.h"
#include "common/tsc.h"

namespace krux::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Waits for something that must happen, however slow the machine is.
template <typename Condition>
bool Eventually(Condition condition) {
  const Nanos give_up = MonotonicNow() + 30 * kSecond;
  while (!condition()) {
    if (MonotonicNow() > give_up) return false;
    std::this_thread::yield();
  }
  return true;
}

Shares Balance(uint32_t cores) { return {cores, ComputePolicy::kBalance, Priority::kNormal, 1}; }

// A container with its pages, and its processes as far as the agent sees them.
struct Container {
  std::string name;
  std::unique_ptr<LimitsPage> limits = std::make_unique<LimitsPage>();
  std::unique_ptr<AccountPage> account = std::make_unique<AccountPage>();
  std::mutex mutex;
  std::vector<uint32_t> ended;  // epochs of the notices

  GpuLimits& gpu() { return limits->gpus[0]; }
  bool held() { return (gpu().lease_word.load() & 1) != 0; }
  // Has had a lease: it may be over already, because nobody takes it up in these tests.
  bool was_granted() { return epoch() >= 2; }
  uint32_t epoch() { return gpu().lease_word.load() >> 1; }
  std::atomic<uint32_t>& active(uint32_t slot = 0) {
    return account->processes[slot].gpus[0].active_epoch;
  }
  std::vector<uint32_t> notices() {
    const std::lock_guard lock(mutex);
    return ended;
  }
};

class LeaseServiceTest : public ::testing::Test {
 protected:
  // A slow machine must look neither like a straggler nor like idleness.
  void SetUp() override {
    Arbiter::Options patient;
    patient.grace = patient.max_parked = 3600 * kSecond;
    Start(patient);
  }

  void Start(const Arbiter::Options& options) {
    auto started = LeaseService::Start(options);
    ASSERT_TRUE(started) << started.error().ToString();
    service_ = std::move(*started);
  }

  void Add(Container& container, const std::string& name, const Shares& shares) {
    container.name = name;
    LeaseService::TenantGpu gpu;
    gpu.gpu_uuid = "GPU-1";
    gpu.limits = container.limits.get();
    gpu.account = container.account.get();
    gpu.shares = shares;
    ASSERT_TRUE(service_->AddTenant(name, gpu));
    Join(container, 0);
  }

  void Join(Container& container, uint32_t slot) {
    ASSERT_TRUE(service_->ProcessJoined(container.name, slot, [&](const wire::Notice& notice) {
      const std::lock_guard lock(container.mutex);
      container.ended.push_back(notice.epoch);
    }));
  }

  void Say(Container& container, wire::EventKind kind, uint32_t epoch = 0, uint32_t slot = 0) {
    wire::Event event;
    event.kind = kind;
    event.epoch = epoch;
    const Status said = service_->OnEvent(container.name, slot, event);
    ASSERT_TRUE(said) << said.error().ToString();
  }

  // The container holds the lease and has work under it.
  void Occupy(Container& container) {
    Say(container, wire::EventKind::kWant);
    ASSERT_TRUE(container.held());
    container.active().store(container.epoch());
  }

  Container a_;
  Container b_;
  std::unique_ptr<LeaseService> service_;
};

TEST_F(LeaseServiceTest, GivesALoneTenantAnOpenLease) {
  Add(a_, "a", Balance(30));
  EXPECT_FALSE(a_.held());
  Say(a_, wire::EventKind::kWant);
  EXPECT_TRUE(a_.held());
  EXPECT_EQ(a_.gpu().lease_end_tsc.load(), UINT64_MAX);
  EXPECT_EQ(a_.limits->tsc_per_second.load(), service_->tsc_per_second());
}

TEST_F(LeaseServiceTest, LetsTheNextInOnlyAfterTheDrain) {
  Add(a_, "a", Balance(50));
  Add(b_, "b", Balance(50));
  Occupy(a_);
  const uint32_t epoch = a_.epoch();
  Say(b_, wire::EventKind::kWant);
  ASSERT_TRUE(Eventually([&] { return !a_.held(); }));
  EXPECT_GT(a_.epoch(), epoch);
  ASSERT_TRUE(Eventually([&] { return !a_.notices().empty(); }));
  EXPECT_THAT(a_.notices(), ElementsAre(epoch));
  EXPECT_FALSE(b_.held());
  a_.active().store(0);
  Say(a_, wire::EventKind::kDrained, epoch);
  EXPECT_TRUE(b_.held());
  EXPECT_GT(b_.gpu().lease_end_tsc.load(), ReadTsc());
  EXPECT_LT(b_.gpu().lease_end_tsc.load(), ReadTsc() + service_->tsc_per_second());
}

TEST_F(LeaseServiceTest, DoesNotBelieveADrainThatThePageDenies) {
  Add(a_, "a", Balance(50));
  Add(b_, "b", Balance(50));
  Occupy(a_);
  const uint32_t epoch = a_.epoch();
  Say(b_, wire::EventKind::kWant);
  ASSERT_TRUE(Eventually([&] { return !a_.held(); }));
  Say(a_, wire::EventKind::kDrained, epoch);
  Say(a_, wire::EventKind::kIdle, epoch);
  EXPECT_FALSE(b_.held());
  // A drain of which no message tells is seen as well.
  a_.active().store(0);
  EXPECT_TRUE(Eventually([&] { return b_.was_granted(); }));
}

TEST_F(LeaseServiceTest, GraceEndsTheWaitForATenantThatNeverDrains) {
  Start({});
  Add(a_, "a", Balance(50));
  Add(b_, "b", Balance(50));
  Occupy(a_);
  Say(b_, wire::EventKind::kWant);
  EXPECT_TRUE(Eventually([&] { return b_.was_granted(); }));
  const auto views = service_->Snapshot();
  ASSERT_EQ(views.size(), 2U);
  EXPECT_TRUE(views[0].lease.straggling);
}

TEST_F(LeaseServiceTest, DeathOfTheLastProcessFreesTheCard) {
  Add(a_, "a", Balance(50));
  Add(b_, "b", Balance(50));
  Join(a_, 7);
  Occupy(a_);
  a_.active(7).store(a_.epoch());
  Say(b_, wire::EventKind::kWant);
  service_->ProcessLeft("a", 0);
  EXPECT_FALSE(b_.held()) << "slot 7 still works";
  service_->ProcessLeft("a", 7);
  EXPECT_TRUE(b_.held());
}

TEST_F(LeaseServiceTest, IdleHolderHandsOnAndALoneOneKeepsItsLease) {
  Add(a_, "a", Balance(50));
  Add(b_, "b", Balance(50));
  Occupy(a_);
  a_.active().store(0);
  Say(a_, wire::EventKind::kIdle, a_.epoch());
  EXPECT_TRUE(a_.held());
  Say(b_, wire::EventKind::kWant);
  EXPECT_FALSE(a_.held());
  EXPECT_TRUE(b_.held());
}

TEST_F(LeaseServiceTest, LeaseThatNobodyTakesUpGoesOn) {
  Add(a_, "a", Balance(50));
  Add(b_, "b", Balance(50));
  Say(a_, wire::EventKind::kWant);
  Say(b_, wire::EventKind::kWant);
  EXPECT_TRUE(Eventually([&] { return b_.was_granted(); }));
}

TEST_F(LeaseServiceTest, LeaseOfThreadsThatWaitButNeverComeGoesOnToo) {
  Add(a_, "a", Balance(50));
  Add(b_, "b", Balance(50));
  a_.account->processes[0].gpus[0].blocked.store(1);
  Say(a_, wire::EventKind::kWant);
  Say(b_, wire::EventKind::kWant);
  EXPECT_TRUE(Eventually([&] { return b_.was_granted(); }));
}

TEST_F(LeaseServiceTest, ThreadsThatWaitAreQueuedWithoutAMessage) {
  Add(a_, "a", Balance(50));
  Add(b_, "b", Balance(50));
  Occupy(a_);
  const uint32_t epoch = a_.epoch();
  a_.account->processes[0].gpus[0].blocked.store(1);
  Say(b_, wire::EventKind::kWant);
  ASSERT_TRUE(Eventually([&] { return !a_.held(); }));
  a_.active().store(0);
  Say(a_, wire::EventKind::kDrained, epoch);
  service_->RemoveTenant("b");
  EXPECT_TRUE(a_.held());
}

TEST_F(LeaseServiceTest, FixedTenantIsStoppedOnAnIdleCard) {
  Add(a_, "a", {10, ComputePolicy::kFixed, Priority::kNormal, 1});
  Occupy(a_);
  EXPECT_LT(a_.gpu().lease_end_tsc.load(), ReadTsc() + service_->tsc_per_second());
  const uint32_t epoch = a_.epoch();
  ASSERT_TRUE(Eventually([&] { return !a_.held(); }));
  const uint32_t ended = a_.epoch();
  a_.active().store(0);
  Say(a_, wire::EventKind::kDrained, epoch);
  Say(a_, wire::EventKind::kWant);
  EXPECT_TRUE(Eventually([&] { return a_.epoch() > ended; })) << "the next period's budget";
}

TEST_F(LeaseServiceTest, TakesOverThePageOfAnEarlierAgent) {
  a_.gpu().lease_word.store((41U << 1) | 1);
  a_.gpu().lease_end_tsc.store(UINT64_MAX);
  Add(a_, "a", Balance(50));
  EXPECT_FALSE(a_.held());
  EXPECT_EQ(a_.epoch(), 42U);
}

TEST_F(LeaseServiceTest, EpochIsNeverZeroAndNeverRepeatsAtTheTurn) {
  a_.gpu().lease_word.store(UINT32_MAX - 1);
  Add(a_, "a", Balance(50));
  EXPECT_EQ(a_.epoch(), 1U);
  Say(a_, wire::EventKind::kWant);
  EXPECT_EQ(a_.epoch(), 2U);
}

TEST_F(LeaseServiceTest, RemovedTenantHoldsNothing) {
  Add(a_, "a", Balance(50));
  Add(b_, "b", Balance(50));
  Occupy(a_);
  Say(b_, wire::EventKind::kWant);
  service_->RemoveTenant("a");
  EXPECT_FALSE(a_.held());
  EXPECT_EQ(a_.gpu().window_cycle.load(), 0U);
  EXPECT_TRUE(b_.held());
  EXPECT_EQ(service_->Snapshot().size(), 1U);
  service_->RemoveTenant("a");
}

TEST_F(LeaseServiceTest, EndOfTheAgentEndsAllLeasesAndLeavesTheWindows) {
  Add(a_, "a", Balance(50));
  Occupy(a_);
  service_.reset();
  EXPECT_FALSE(a_.held());
  EXPECT_NE(a_.gpu().window_cycle.load(), 0U);
}

TEST_F(LeaseServiceTest, RefusesWhatCannotBe) {
  Add(a_, "a", Balance(50));
  LeaseService::TenantGpu gpu{"GPU-1", 0, a_.limits.get(), a_.account.get(), Balance(10)};
  EXPECT_EQ(service_->AddTenant("a", gpu).error().code, ErrorCode::kAlreadyExists);
  gpu.page_gpu = kMaxPageGpus;
  EXPECT_EQ(service_->AddTenant("c", gpu).error().code, ErrorCode::kInvalidArgument);
  gpu.page_gpu = 0;
  gpu.shares = Balance(101);
  EXPECT_EQ(service_->AddTenant("c", gpu).error().code, ErrorCode::kInvalidArgument);
  gpu.shares = {0, ComputePolicy::kFixed, Priority::kNormal, 1};
  EXPECT_EQ(service_->AddTenant("c", gpu).error().code, ErrorCode::kInvalidArgument);
  wire::Event event;
  EXPECT_EQ(service_->OnEvent("c", 0, event).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(service_->OnEvent("a", 9, event).error().code, ErrorCode::kInvalidArgument);
  event.gpu = 1;
  EXPECT_EQ(service_->OnEvent("a", 0, event).error().code, ErrorCode::kInvalidArgument);
  event.gpu = 0;
  event.kind = wire::EventKind::kContextMade;
  EXPECT_EQ(service_->OnEvent("a", 0, event).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(service_->ProcessJoined("a", kMaxPageProcesses, nullptr));
  EXPECT_EQ(service_->SetShares("a", 3, Balance(1)).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(a_.held());
}

TEST_F(LeaseServiceTest, TenantsOfOtherCardsDoNotWait) {
  Add(a_, "a", Balance(50));
  Occupy(a_);
  LeaseService::TenantGpu gpu{"GPU-2", 0, b_.limits.get(), b_.account.get(), Balance(50)};
  b_.name = "b";
  ASSERT_TRUE(service_->AddTenant("b", gpu));
  Join(b_, 0);
  Say(b_, wire::EventKind::kWant);
  EXPECT_TRUE(a_.held());
  EXPECT_TRUE(b_.held());
}

// The gate as a limiter does it, without a GPU: works while the lease lasts.
class FakeLimiter {
 public:
  FakeLimiter(LeaseService* service, Container* container, std::atomic<int>* inside)
      : service_(service), container_(container), inside_(inside), thread_([this] { Run(); }) {}
  ~FakeLimiter() {
    stop_.store(true);
    thread_.join();
  }
  uint64_t leases() const { return leases_.load(); }
  uint64_t clashes() const { return clashes_.load(); }

 private:
  void Run() {
    while (!stop_.load()) {
      const uint32_t word = container_->gpu().lease_word.load();
      if ((word & 1) == 0 || ReadTsc() >= container_->gpu().lease_end_tsc.load()) {
        Say(wire::EventKind::kWant, 0);
        // The wait is bounded, so that the test ends.
        const timespec most{0, static_cast<long>(5 * kMillisecond)};
        syscall(SYS_futex, &container_->gpu().lease_word, FUTEX_WAIT, word, &most, nullptr, 0);
        continue;
      }
      const uint32_t epoch = word >> 1;
      container_->active().store(epoch);
      if (container_->gpu().lease_word.load() == word) Work(word);
      container_->active().store(0);
      Say(wire::EventKind::kDrained, epoch);
    }
  }

  void Work(uint32_t word) {
    if (inside_->fetch_add(1) != 0) ++clashes_;
    ++leases_;
    while (!stop_.load() && container_->gpu().lease_word.load() == word &&
           ReadTsc() < container_->gpu().lease_end_tsc.load()) {
      std::this_thread::yield();
    }
    inside_->fetch_sub(1);
  }

  void Say(wire::EventKind kind, uint32_t epoch) {
    wire::Event event;
    event.kind = kind;
    event.epoch = epoch;
    (void)service_->OnEvent(container_->name, 0, event);
  }

  LeaseService* service_;
  Container* container_;
  std::atomic<int>* inside_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> leases_{0};
  std::atomic<uint64_t> clashes_{0};
  std::thread thread_;
};

TEST_F(LeaseServiceTest, ThreadsOfTwoTenantsTakeTurnsAndNeverMeet) {
  Add(a_, "a", Balance(30));
  Add(b_, "b", {70, ComputePolicy::kFixed, Priority::kLatency, 1});
  std::atomic<int> inside{0};
  FakeLimiter a(service_.get(), &a_, &inside);
  FakeLimiter b(service_.get(), &b_, &inside);
  EXPECT_TRUE(Eventually([&] { return a.leases() >= 10 && b.leases() >= 10; }));
  ASSERT_TRUE(service_->SetShares("b", 0, Balance(10)));
  const uint64_t before = b.leases();
  EXPECT_TRUE(Eventually([&] { return b.leases() >= before + 5; }));
  EXPECT_EQ(service_->Snapshot().size(), 2U);
  EXPECT_EQ(a.clashes() + b.clashes(), 0U);
}

TEST(TimeWindows, AreDisjointAndOfTheRightWidth) {
  const auto windows = ComputeWindows({{0.3, 30, ComputePolicy::kFixed},
                                       {0.2, 20, ComputePolicy::kBalance},
                                       {1, 0, ComputePolicy::kNone},
                                       {0.2, 20, ComputePolicy::kBalance}});
  ASSERT_EQ(windows.size(), 4U);
  Nanos end = 0;
  for (const auto& window : windows) {
    EXPECT_GE(window.begin, end);
    EXPECT_GT(window.width, 0);
    end = window.begin + window.width;
  }
  EXPECT_LE(end, kWindowCycle);
  EXPECT_NEAR(static_cast<double>(windows[0].width + kWindowGuard), 0.3 * kWindowCycle, 1e3);
  EXPECT_NEAR(static_cast<double>(windows[1].width + kWindowGuard), 0.345 * kWindowCycle, 1e3);
}

TEST(TimeWindows, ShrinkWhenTooMuchWasPromised) {
  std::vector<WindowShare> shares(300, {0.5, 50, ComputePolicy::kFixed});
  const auto windows = ComputeWindows(shares);
  EXPECT_LE(windows.back().begin + windows.back().width, kWindowCycle);
  EXPECT_GT(windows.back().width, 0);
  EXPECT_THAT(ComputeWindows({}), IsEmpty());
}

}  // namespace
}  // namespace krux::agent
