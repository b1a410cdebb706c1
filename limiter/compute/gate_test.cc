#include "limiter/compute/gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "limiter/compute/idle_clock.h"
#include "limiter/driver/driver.h"
#include "limiter/life/futex.h"

namespace krux::limiter {

namespace {

std::atomic<int> markers_put{0};

CUresult CountMarker(CUstream, CUdeviceptr, cuuint64_t, unsigned int) {
  ++markers_put;
  return CUDA_SUCCESS;
}

}  // namespace

// All that the gate asks of the driver.
const Driver& Real() {
  static const Driver driver = [] {
    Driver made{};
    made.cuStreamWriteValue64_v2 = &CountMarker;
    return made;
  }();
  return driver;
}

namespace {

// A gate with pages of its own; the test plays the agent.
class GateTest : public ::testing::Test {
 protected:
  GateTest() {
    limits_->gpu_count = 1;
    limits_->tsc_per_second = 2'000'000'000;
    account_.Attach(limits_.get(), page_.get(), 0, 1);
    words_.Init();
    pace_ = Pace::At(TickRate(limits_->tsc_per_second));
    gate_.Init(limits_.get(), &pace_, [] {});
  }

  GpuLimits& lease() { return limits_->gpus[0]; }

  void SetLease(bool held) {
    lease().lease_end_tsc.store(UINT64_MAX);
    const uint32_t epoch = (lease().lease_word.load() >> 1) + 1;
    lease().lease_word.store((epoch << 1) | (held ? 1U : 0U));
    syscall(SYS_futex, &lease().lease_word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }

  std::unique_ptr<LimitsPage> limits_ = std::make_unique<LimitsPage>();
  std::unique_ptr<AccountPage> page_ = std::make_unique<AccountPage>();
  Account account_;
  AgentLink link_;
  Streams streams_;
  ThreadWords words_;
  Pace pace_;
  Cost cost_;
  CostModel costs_;
  Gate gate_{&account_, &link_, &streams_, &words_};
};

// Whoever ends a lease and then sees all words clear may be sure: nothing comes any more.
TEST_F(GateTest, NothingPassesOnceTheEndOfALeaseWasSeen) {
  constexpr int kThreads = 3, kLeases = 60;
  std::atomic<bool> allowed{false}, stop{false};
  std::atomic<uint64_t> launches{0}, late{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        Admission admission(gate_, 0, nullptr, cost_, pace_);
        if (!allowed.load() && !stop.load()) ++late;
        ++launches;
        admission.Launched(streams_);
      }
    });
  }
  for (int i = 0; i < kLeases; ++i) {
    const uint64_t before = launches.load();
    allowed.store(true);
    SetLease(true);
    while (launches.load() < before + 50) std::this_thread::yield();
    SetLease(false);
    while (!words_.AllClear()) std::this_thread::yield();
    allowed.store(false);
    for (int look = 0; look < 50; ++look) std::this_thread::yield();
  }
  stop.store(true);
  allowed.store(true);
  SetLease(true);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(late.load(), 0U);
}

TEST_F(GateTest, ALeaseThatIsOverByTimeIsClosed) {
  SetLease(true);
  {
    const Admission opens(gate_, 0, nullptr, cost_, pace_);
  }
  lease().lease_end_tsc.store(TicksNow());
  std::atomic<bool> passed{false};
  std::thread waiter([&] {
    const Admission waits(gate_, 0, nullptr, cost_, pace_);
    passed.store(true);
  });
  while (page_->processes[0].gpus[0].blocked.load() == 0) std::this_thread::yield();
  EXPECT_FALSE(passed.load());
  SetLease(true);
  waiter.join();
  EXPECT_TRUE(passed.load());
  EXPECT_EQ(page_->processes[0].gpus[0].blocked.load(), 0U);
}

TEST_F(GateTest, AThreadThatWatchesSeesTheGrant) {
  SetLease(false);
  lease().soon_tsc.store(TicksNow() + 1'000'000);
  std::thread waiter([&] { const Admission waits(gate_, 0, nullptr, cost_, pace_); });
  while (page_->processes[0].gpus[0].blocked.load() == 0) std::this_thread::yield();
  SetLease(true);
  waiter.join();
  EXPECT_EQ(page_->processes[0].gpus[0].active_epoch.load(), lease().lease_word.load() >> 1);
}

TEST_F(GateTest, WindowsCountWhenTheAgentIsSilentThoughItsConnectionStands) {
  SetLease(false);
  lease().window_cycle.store(limits_->tsc_per_second);
  lease().window_width.store(limits_->tsc_per_second);
  limits_->heartbeat_tsc.store(1);
  const Admission passes(gate_, 0, nullptr, cost_, pace_);
  EXPECT_EQ(page_->processes[0].gpus[0].active_epoch.load(), 0U);
}

// A marker costs the card about 2 us: behind each kernel of 50 us that would be 4 percent.
TEST_F(GateTest, LaunchesInAWindowAreMarkedBySumAndNotOneByOne) {
  SetLease(false);
  lease().window_cycle.store(3600 * limits_->tsc_per_second);
  lease().window_width.store(3600 * limits_->tsc_per_second);
  gate_.SetAgentLost(true);
  Stream stream;
  std::atomic<uint64_t> marker{0};
  stream.marker_address = 1;
  stream.track.Begin(&pace_, &costs_, &marker);
  costs_.Learn(cost_, pace_.per_marker / 20, Evidence::kExact);
  markers_put.store(0);
  for (int i = 0; i < 20; ++i) {
    Admission admission(gate_, 0, &stream, cost_, pace_);
    admission.Launched(streams_);
  }
  EXPECT_EQ(markers_put.load(), 1);
}

// A step that ran from one look to the next, and the host works for a moment before the next one.
TEST(IdleClockTest, WorkThatEndedSinceTheLastLookIsNoIdleTime) {
  IdleClock clock;
  EXPECT_EQ(clock.Look(/*finished=*/false, /*issued=*/1, /*last_progress=*/0, 1000), 0U);
  EXPECT_EQ(clock.Look(true, 1, 1450, 1480), 30U);
  EXPECT_EQ(clock.Look(true, 1, 1450, 1600), 150U);
  EXPECT_EQ(clock.Look(true, 2, 1450, 1700), 0U);  // a launch that nobody saw end
  EXPECT_EQ(clock.Look(true, 2, 9999, 1800), 0U);  // a thread on another core is ahead
}

TEST(ThreadWordsTest, KnowsWhoLaunchesWhere) {
  ThreadWords words;
  words.Init();
  // A thread keeps its word for life, and a program has one ThreadWords: so a thread of its own
  // here.
  std::thread([&words] {
    int stream = 0, other = 0;
    ThreadWords::Word& mine = words.Mine();
    EXPECT_FALSE(words.LaunchingOn(&stream));
    mine.Enter(&stream);
    EXPECT_TRUE(words.LaunchingOn(&stream));
    EXPECT_FALSE(words.LaunchingOn(&other));
    EXPECT_FALSE(words.AllClear());
    mine.Leave();
    EXPECT_TRUE(words.AllClear());
  }).join();
}

}  // namespace
}  // namespace krux::limiter
