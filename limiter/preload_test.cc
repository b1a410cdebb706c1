// libkrux.so preloaded into a CUDA program, against the simulated driver, with a small agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "limiter/testing/client_run.h"
#include "limiter/testing/fake_agent.h"

namespace krux::limiter {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class Preload : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.sim_folder = sim_.path();
    options_.container_folder = container_.path();
    gpu_.uuid = SimulatedUuid(sim_.path());
  }

  FakeAgent& StartAgent(bool grant_on_want = true) {
    agent_ = std::make_unique<FakeAgent>(container_.path(), std::vector<FakeAgent::Gpu>{gpu_},
                                         grant_on_want);
    return *agent_;
  }

  std::string Run(const std::vector<std::string>& commands) {
    return Client(options_, commands).ReadAll();
  }

  TempFolder sim_, container_;
  FakeAgent::Gpu gpu_;
  ClientOptions options_;
  std::unique_ptr<FakeAgent> agent_;
};

TEST_F(Preload, ShowsACardOfTheSizeOfTheLimit) {
  StartAgent();
  const std::string text = Run({"init", "ctx", "total", "info"});
  EXPECT_THAT(text, HasSubstr("init 0\nctx 0\ntotal 4096\n"));
  EXPECT_THAT(text, HasSubstr("info 0 3576 4096"));  // less the context of 520 MiB
}

TEST_F(Preload, FillsUpToTheLimitAndNotAMebibyteMore) {
  StartAgent();
  const std::string text = Run({"init", "ctx", "fill:2097152", "info", "freeall", "fill:1048576",
                                "freeall", "info", "alloc:3749707776", "alloc:2"});
  EXPECT_THAT(text, HasSubstr("fill " + std::to_string(3576 * 1024) + "\ninfo 0 0 4096"));
  EXPECT_THAT(text, HasSubstr("freeall 0\nfill " + std::to_string(3576 * 1024) + "\n"));
  EXPECT_THAT(text, HasSubstr("freeall 0\ninfo 0 3576 4096\nalloc 0\nalloc 2\n"));
}

TEST_F(Preload, FindsRoomInChargedSlabsWhenFull) {
  StartAgent();
  const std::string text =
      Run({"init", "ctx", "alloc:1024", "fill:2097152", "alloc:1024", "alloc:1048577", "info"});
  EXPECT_THAT(text,
              HasSubstr("fill " + std::to_string(3574 * 1024) + "\nalloc 0\nalloc 2\ninfo 0 0"));
}

TEST_F(Preload, EveryDoorLeadsThroughTheLimiter) {
  StartAgent();
  for (const char* door : {"linked", "dlsym", "default", "next", "deepbind", "dlsym-of-libc",
                           "path", "gpa1", "gpa2", "self"}) {
    const std::string text = Run({"init", "ctx", std::string("door:") + door});
    EXPECT_THAT(text, HasSubstr("door 2\nwrapped 1")) << door;
  }
}

TEST_F(Preload, LookupsByVersionAndByNameAgree) {
  StartAgent();
  const std::string text = Run({"init", "lookup"});
  EXPECT_THAT(text, HasSubstr("different 0")) << text;
  EXPECT_THAT(text, Not(HasSubstr("same 0")));
}

TEST_F(Preload, StopsEveryKindOfMemory) {
  StartAgent();
  const std::string text = Run({"init", "ctx", "alloc:3221225472", "alloc:536870912",
                                "managed:536870912", "pitch:1048576:512", "async:536870912",
                                "pool:536870912", "vmm:536870912", "array:32768:4096", "info"});
  EXPECT_THAT(text,
              HasSubstr("alloc 0\nalloc 2\nmanaged 2\npitch 2\nasync 2\npool 2\nvmm 2\narray 2\n"
                        "info 0 504 4096"))
      << text;
}

TEST_F(Preload, FailsClosedWithoutLimits) {
  const std::string text = Run({"init", "ctx", "alloc:1024"});
  EXPECT_THAT(text, HasSubstr("krux: no CUDA in this process: no limits page"));
  EXPECT_THAT(text, HasSubstr("init 800"));
  EXPECT_THAT(text, Not(HasSubstr("alloc 0")));
}

TEST_F(Preload, FailsClosedWithoutAnAgent) {
  StartAgent().Stop();
  const std::string text = Run({"init", "ctx"});
  EXPECT_THAT(text, HasSubstr("the agent of this node does not answer"));
  EXPECT_THAT(text, HasSubstr("init 800"));
}

TEST_F(Preload, FailsClosedOnAWrongLimitsPage) {
  StartAgent().limits().magic = 7;
  EXPECT_THAT(Run({"init"}), HasSubstr("is not a valid limits page"));
}

TEST_F(Preload, RefusesADeviceThatWasNotGranted) {
  gpu_.uuid[0] = static_cast<uint8_t>(gpu_.uuid[0] + 1);
  StartAgent();
  EXPECT_THAT(Run({"init", "ctx"}), HasSubstr("init 800"));
}

TEST_F(Preload, IsNotTurnedOffByVariables) {
  StartAgent();
  options_.more_environment = {"CUDA_DISABLE_CONTROL=true", "KRUX_LIMIT=0", "CUDA_MEM_LIMIT=0",
                               "KRUX_DISABLE=1"};
  EXPECT_THAT(Run({"init", "ctx", "total"}), HasSubstr("total 4096"));
}

TEST_F(Preload, GivesTheAccountBackWhenMemoryIsFreed) {
  FakeAgent& agent = StartAgent();
  Client client(options_, {"init", "ctx", "alloc:104857600", "alloc:1000", "wait", "free:0",
                           "free:1", "destroy", "wait"});
  ASSERT_TRUE(client.ReadUntil("waiting"));
  EXPECT_EQ(agent.account().gpus[0].used_bytes, (520 + 100 + 2) * kMiB);
  EXPECT_EQ(agent.account().processes[0].gpus[0].charged_bytes, (520 + 100 + 2) * kMiB);
  while (agent.EventsSeen(wire::EventKind::kContextMade) == 0) usleep(1000);
  client.Continue();
  ASSERT_TRUE(client.ReadUntil("destroy 0\nwaiting"));
  EXPECT_EQ(agent.account().gpus[0].used_bytes, 0U);
}

TEST_F(Preload, KeepsVirtualMemoryChargedWhileItIsMapped) {
  FakeAgent& agent = StartAgent();
  Client client(options_, {"init", "ctx", "vmm:67108864", "map:0:67108864", "release:0", "wait",
                           "unmap:0:67108864", "wait"});
  ASSERT_TRUE(client.ReadUntil("waiting"));
  EXPECT_EQ(agent.account().gpus[0].used_bytes, (520 + 64) * kMiB);
  client.Continue();
  ASSERT_TRUE(client.ReadUntil("unmap 0\nwaiting"));
  EXPECT_EQ(agent.account().gpus[0].used_bytes, 520 * kMiB);
}

TEST_F(Preload, NvmlShowsTheSmallCardWithItsOwnProcesses) {
  StartAgent();
  EXPECT_THAT(Run({"init", "ctx", "alloc:104857600", "nvml"}),
              HasSubstr("nvml 0 4096 620 processes 1 own 1"));
  EXPECT_THAT(Run({"nvml"}), HasSubstr("nvml 0 4096"));  // without CUDA
}

TEST_F(Preload, ForkChildrenHaveNoGpu) {
  StartAgent();
  EXPECT_THAT(Run({"init", "ctx", "alloc:1024", "fork:1024", "alloc:1024"}),
              HasSubstr("fork 7\nalloc 0"));
}

TEST_F(Preload, GarbageInTheAccountHarmsNobody) {
  FakeAgent& agent = StartAgent();
  Client client(options_, {"init", "ctx", "alloc:1024", "wait", "alloc:4194304", "free:0",
                           "launch:100:3", "info"});
  ASSERT_TRUE(client.ReadUntil("waiting"));
  memset(&agent.account().gpus, 0xa5, sizeof agent.account().gpus);
  memset(&agent.account().processes[0].gpus, 0x5a, sizeof agent.account().processes[0].gpus);
  client.Continue();
  EXPECT_THAT(client.ReadAll(), HasSubstr("alloc 2\nfree 0\nlaunch 0\ninfo 0 0 4096"));
}

TEST_F(Preload, WaitsForALease) {
  FakeAgent& agent = StartAgent(false);
  Client client(options_, {"init", "ctx", "launch:1000:5"});
  ASSERT_TRUE(client.ReadUntil("ctx 0"));
  while (agent.EventsSeen(wire::EventKind::kWant) == 0) usleep(1000);
  EXPECT_TRUE(agent.Drained(0));
  EXPECT_EQ(agent.account().processes[0].gpus[0].blocked, 1U);
  agent.Grant(0, UINT64_MAX);
  EXPECT_THAT(client.ReadAll(), HasSubstr("launch 0"));
}

TEST_F(Preload, DrainsWhenTheLeaseEnds) {
  FakeAgent& agent = StartAgent(false);
  Client client(options_, {"init", "ctx", "rate:5000:60000"});
  while (agent.EventsSeen(wire::EventKind::kWant) == 0) usleep(1000);
  agent.Grant(0, UINT64_MAX);
  while (agent.Drained(0)) usleep(1000);
  agent.End(0);
  while (agent.EventsSeen(wire::EventKind::kDrained) == 0) usleep(100);
  EXPECT_TRUE(agent.Drained(0));
}

TEST_F(Preload, HandsAnIdleLeaseOn) {
  FakeAgent& agent = StartAgent();
  Client client(options_, {"init", "ctx", "launch:100:5", "wait", "launch:100:5", "wait"});
  ASSERT_TRUE(client.ReadUntil("launch 0"));
  while (agent.EventsSeen(wire::EventKind::kIdle) == 0) usleep(1000);
  EXPECT_TRUE(agent.Drained(0));
  client.Continue();
  EXPECT_TRUE(client.ReadUntil("launch 0\nwaiting\nlaunch 0"));
}

// Two containers on one card, and a hand that gives it to one and then to the other.
class TwoContainers : public Preload {
 protected:
  void SetUp() override {
    Preload::SetUp();
    StartAgent(false);
    other_ =
        std::make_unique<FakeAgent>(other_folder_.path(), std::vector<FakeAgent::Gpu>{gpu_}, false);
    other_options_ = options_;
    other_options_.container_folder = other_folder_.path();
  }

  static void Turn(FakeAgent& agent, double milliseconds) {
    const auto ticks =
        static_cast<uint64_t>(milliseconds / 1e3 * static_cast<double>(agent.tsc_per_second()));
    const uint64_t end = __rdtsc() + ticks;
    agent.Grant(0, end);
    while (__rdtsc() < end || !agent.Drained(0)) usleep(50);
  }

  static double RateIn(const std::string& text) {
    const size_t start = text.find("rate ");
    return start == std::string::npos ? 0 : std::stod(text.substr(start + 5));
  }

  TempFolder other_folder_;
  ClientOptions other_options_;
  std::unique_ptr<FakeAgent> other_;
};

TEST_F(TwoContainers, ShareTheCardAsTheyAreGivenIt) {
  const std::vector<std::string> commands = {"init", "ctx", "rate:50000:3000"};
  Client one(options_, commands), two(other_options_, commands);
  const auto asks = [](const FakeAgent& agent) {
    return agent.EventsSeen(wire::EventKind::kWant) != 0;
  };
  while (!asks(*agent_) || !asks(*other_)) usleep(1000);
  const uint64_t until = __rdtsc() + agent_->tsc_per_second() * 4;
  while (__rdtsc() < until) {
    Turn(*agent_, 12);
    Turn(*other_, 28);
  }
  agent_->Grant(0, UINT64_MAX);
  other_->Grant(0, UINT64_MAX);
  const double first = RateIn(one.ReadAll()), second = RateIn(two.ReadAll());
  RecordProperty("first", std::to_string(first));
  RecordProperty("second", std::to_string(second));
  EXPECT_NEAR(first / (first + second), 0.3, 0.04) << first << " " << second;
}

TEST_F(Preload, FollowsTheWindowsWhileTheAgentIsGoneAndComesBack) {
  FakeAgent& agent = StartAgent();
  Client client(options_, {"init", "ctx", "alloc:104857600", "rate:5000:2000", "wait"});
  ASSERT_TRUE(client.ReadUntil("alloc 0"));
  while (agent.Drained(0)) usleep(1000);
  agent.Stop();
  GpuLimits& gpu = agent.limits().gpus[0];
  gpu.window_origin = __rdtsc();
  gpu.window_begin = 0;
  gpu.window_width = agent.tsc_per_second() / 100;
  gpu.window_cycle = agent.tsc_per_second() / 25;
  ASSERT_TRUE(client.ReadUntil("waiting"));  // a quarter of the time is enough to come to the end
  agent.ReplaceAccount();
  agent.Start();
  while (agent.hellos() < 2) usleep(1000);
  EXPECT_EQ(agent.last_resume_slot(), 0U);
  while (agent.account().gpus[0].used_bytes == 0) usleep(1000);
  EXPECT_EQ(agent.account().gpus[0].used_bytes, 622 * kMiB);  // context, 100 MiB, a slab
  EXPECT_EQ(agent.account().processes[0].gpus[0].charged_bytes, 622 * kMiB);
}

}  // namespace
}  // namespace krux::limiter
