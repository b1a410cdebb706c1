// What people reported of other limiters' memory limits, as tests (docs/memory.md has the table):
// the library preloaded into a real program on the simulated driver.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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

class Reports : public ::testing::Test {
 protected:
  Reports() {
    options_.sim_folder = sim_.path();
    options_.container_folder = container_.path();
    gpu_.uuid = SimulatedUuid(sim_.path());
  }
  FakeAgent& StartAgent() {
    agent_ = std::make_unique<FakeAgent>(container_.path(), std::vector<FakeAgent::Gpu>{gpu_});
    return *agent_;
  }
  std::string Run(const std::vector<std::string>& commands) {
    if (agent_ == nullptr) StartAgent();
    return Client(options_, commands).ReadAll();
  }

  TempFolder sim_, container_;
  FakeAgent::Gpu gpu_;
  ClientOptions options_;
  std::unique_ptr<FakeAgent> agent_;
};

TEST_F(Reports, OwnPoolsAreCountedAndTheirPointersFreed) {
  const std::string text = Run({"init", "ctx", "pool:3221225472", "pool:1073741824", "freeasync:0",
                                "sync", "info", "pool:1073741824", "unknownfree"});
  EXPECT_THAT(text, HasSubstr("pool 0\npool 2\nfreeasync 0\nsync 0\ninfo 0 3576 4096\npool 0\n"))
      << text;
  EXPECT_THAT(text, Not(HasSubstr("unknownfree 0")));  // the driver's own answer
}

TEST_F(Reports, AMillionCyclesWouldNotDrift) {
  gpu_.limit_bytes = 1024 * kMiB;
  FakeAgent& agent = StartAgent();
  Client client(options_, {"init", "ctx", "cycle:268435456:2000", "sync", "wait"});
  ASSERT_TRUE(client.ReadUntil("waiting"));
  EXPECT_EQ(agent.account().gpus[0].used_bytes, 520 * kMiB);
  client.Continue();
  EXPECT_THAT(client.ReadAll(), HasSubstr("cycle failed 0"));
}

TEST_F(Reports, AnyOrderOfCallsEndsWhereItBegan) {
  FakeAgent& agent = StartAgent();
  Client client(options_,
                {"init", "ctx", "random:1:4000", "random:2:4000", "sync", "info", "wait"});
  ASSERT_TRUE(client.ReadUntil("waiting"));
  // Managed memory that was freed leaves the rest of a step of 128 MiB.
  EXPECT_EQ(agent.account().gpus[0].used_bytes, (520 + 126) * kMiB);
  EXPECT_EQ(agent.account().processes[0].gpus[0].unlisted_bytes, 126 * kMiB);
  client.Continue();
  EXPECT_THAT(client.ReadAll(), HasSubstr("random errors 0\nrandom errors 0"));
}

TEST_F(Reports, RefusalIsTheOrdinaryErrorAndASmallerRetryWorks) {
  EXPECT_THAT(Run({"init", "ctx", "halve:5368709120"}),
              HasSubstr("halve 2 then 0 of 2560, context 0, text 1"));
}

TEST_F(Reports, NewerMemoryQueryHasTheRightFields) {
  EXPECT_THAT(Run({"init", "ctx", "alloc:104857600", "nvml2"}),
              HasSubstr("nvml2 0 total 4096 used 620 free 3476 sane 1 wrong 25"));
}

TEST_F(Reports, BeforeItsFirstUseThePrimaryContextIsUntouched) {
  EXPECT_THAT(Run({"init", "state"}), HasSubstr("state active 0 set 0 flags 4"));
}

TEST_F(Reports, MemoryOfTheHostIsNoGpusAndOddPlacesAreRefused) {
  FakeAgent& agent = StartAgent();
  Client client(options_,
                {"init", "ctx", "vmmat:2:0", "vmmat:3:0", "vmmat:1:77", "vmmat:99:3", "wait"});
  ASSERT_TRUE(client.ReadUntil("waiting"));
  EXPECT_EQ(agent.account().gpus[0].used_bytes, 520 * kMiB);
  client.Continue();
  EXPECT_THAT(client.ReadAll(), HasSubstr("vmmat 101\nvmmat 1\n"));
}

TEST_F(Reports, NoEnvironmentRaisesALimit) {
  for (const char* variable :
       {"CUDA_DISABLE_CONTROL=true", "LD_PRELOAD_DISABLE=1", "CUDA_DEVICE_MEMORY_LIMIT=80g",
        "GPU_CORE_UTILIZATION_POLICY=disable", "NVIDIA_VISIBLE_DEVICES=all", "LIBCUDA_LOG_LEVEL=4",
        "CUDA_DEVICE_MEMORY_LIMIT_0=0", "CUDA_OVERSUBSCRIBE=true", "KRUX_GPUMEM=0"}) {
    options_.more_environment = {variable};
    EXPECT_THAT(Run({"init", "ctx", "total", "alloc:4294967296"}), HasSubstr("total 4096\nalloc 2"))
        << variable;
  }
}

TEST_F(Reports, ManagedPoolsAreCounted) {
  EXPECT_THAT(Run({"init", "ctx", "managedpool:3221225472", "managedpool:1073741824"}),
              HasSubstr("managedpool 0\nmanagedpool 2"));
}

TEST_F(Reports, VariablesOfModulesAreCounted) {
  EXPECT_THAT(Run({"init", "ctx", "module:3221225472", "module:1073741824"}),
              HasSubstr("module 0\nmodule 2"));
}

TEST_F(Reports, LocalMemoryIsCountedBeforeTheLaunchThatGrowsIt) {
  gpu_.limit_bytes = 2048 * kMiB;
  EXPECT_THAT(Run({"init", "ctx", "local:1024", "local:4096", "local:8192"}),
              HasSubstr("local 0\nlocal 0\nlocal 2"));
}

TEST_F(Reports, ALargerStackIsCountedWhenItIsAskedFor) {
  gpu_.limit_bytes = 2048 * kMiB;
  EXPECT_THAT(Run({"init", "ctx", "stack:4096", "stack:16384", "stack:1024", "info"}),
              HasSubstr("stack 0\nstack 2\nstack 0\ninfo 0 1528"));
}

TEST_F(Reports, MipmapsOfManyLevelsAreCounted) {
  EXPECT_THAT(
      Run({"init", "ctx", "alloc:3221225472", "mipmap:8192:8192:14", "mipmap:1024:1024:11"}),
      HasSubstr("alloc 0\nmipmap 2\nmipmap 0"));
}

TEST_F(Reports, ManyStreamsAreCounted) {
  gpu_.limit_bytes = 540 * kMiB;
  EXPECT_THAT(Run({"init", "ctx", "createstreams:8", "createstreams:64"}),
              HasSubstr("createstreams 0\ncreatestreams 2"));
}

TEST_F(Reports, UtilizationIsTheContainersOwn) {
  StartAgent().limits().gpus[0].used_percent = 37;
  EXPECT_THAT(Run({"init", "utilization"}), HasSubstr("utilization 0 37"));
}

TEST_F(Reports, UseOfAllContainersTogetherIsNotShown) {
  EXPECT_THAT(Run({"init", "engines"}), HasSubstr("engines 4 hidden 4"));
}

TEST_F(Reports, ASecondCopyOfTheDriverIsRefused) {
  const std::string text = Run({"init", "dlmopen"});
  EXPECT_THAT(text, HasSubstr("dlmopen 0"));
  EXPECT_THAT(text, HasSubstr("refused by the GPU limiter"));
}

TEST_F(Reports, AProgramThatOnlyAllocatesFindsARestartedAgent) {
  FakeAgent& agent = StartAgent();
  Client client(options_, {"init", "ctx", "alloc:104857600", "wait"});
  ASSERT_TRUE(client.ReadUntil("waiting"));
  agent.Stop();
  agent.ReplaceAccount();
  agent.Start();
  while (agent.hellos() < 2) usleep(1000);
  while (agent.account().gpus[0].used_bytes == 0) usleep(1000);
  EXPECT_EQ(agent.account().gpus[0].used_bytes, 620 * kMiB);
}

}  // namespace
}  // namespace krux::limiter
