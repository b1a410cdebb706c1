// Several processes on one card: shares of time, deaths at any moment, pids across namespaces.
#include <sched.h>
#include <signal.h>

#include <random>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "sim/state/share.h"
#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

using SharingTest = SimTest;

struct Race {
  std::atomic<int> ready{0};
  std::atomic<int> go{0};
  std::atomic<float> milliseconds[4] = {};
};

// 400 kernels of 1 ms, queued at once; the time that they took by the card's own events, which a
// busy test machine does not disturb.
float TimeOfBatch(Program* program) {
  CUevent start = nullptr;
  CUevent end = nullptr;
  float milliseconds = 0;
  EXPECT_EQ(cuEventCreate(&start, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuEventCreate(&end, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(start, program->stream), CUDA_SUCCESS);
  for (int i = 0; i < 400; ++i) EXPECT_EQ(program->Launch(1000), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(end, program->stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_SUCCESS);
  return milliseconds;
}

TEST_F(SharingTest, TwoTenantsGetHalfEachOfWhatSwitchingLeaves) {
  MakeNode();
  auto* race = Shared<Race>();
  for (const int tenants : {1, 2}) {
    race->ready.store(0);
    race->go.store(0);
    std::vector<pid_t> children;
    for (int i = 0; i < tenants; ++i) {
      children.push_back(Start([=] {
        Program program;
        program.Open();
        race->ready.fetch_add(1);
        while (race->go.load() == 0) std::this_thread::yield();
        race->milliseconds[i].store(TimeOfBatch(&program));
      }));
    }
    while (race->ready.load() < tenants) std::this_thread::yield();
    race->go.store(1);
    for (const pid_t child : children) EXPECT_EQ(ExitCode(child), 0);
    if (tenants == 1) {
      EXPECT_NEAR(race->milliseconds[0].load(), 400.0F, 8.0F);
    }
  }
  // 400 / 0.454 = 881 when they start together; a late start makes it less for both.
  for (const int i : {0, 1}) {
    EXPECT_GT(race->milliseconds[i].load(), 600.0F);
    EXPECT_LT(race->milliseconds[i].load(), 900.0F);
  }
}

TEST_F(SharingTest, TwoProcessesTogetherNeverGetMoreThanTheCardHas) {
  MakeNode(1, 4096);
  struct Tally {
    std::atomic<int> ready{0};
    std::atomic<int> full{0};
    std::atomic<uint64_t> granted_mib{0};
  };
  constexpr int kChildren = 4;
  auto* tally = Shared<Tally>();
  std::vector<pid_t> children;
  for (int i = 0; i < kChildren; ++i) {
    children.push_back(Start([=] {
      Program program;
      program.Open();
      tally->ready.fetch_add(1);
      while (tally->ready.load() < kChildren) std::this_thread::yield();
      CUdeviceptr block = 0;
      uint64_t mine = 518;
      while (cuMemAlloc(&block, 2 << 20) == CUDA_SUCCESS) mine += 2;
      tally->granted_mib.fetch_add(mine);
      tally->full.fetch_add(1);
      pause();
    }));
  }
  while (tally->full.load() < kChildren) std::this_thread::yield();
  // All but what the card keeps, to one block of 2 MiB.
  EXPECT_EQ(tally->granted_mib.load(), 4058U);
  EXPECT_EQ(Node().UsedMemory(0), 4058 * kTestMiB + kChildren * kUnlisted);
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) ExitCode(child);
  EXPECT_EQ(Node().UsedMemory(0), 0U);
}

// Everything that touches the shared state, for ever; ends by itself only when something fails that
// may not.
void Churn() {
  Program program;
  program.Open();
  CUdeviceptr blocks[8] = {};
  for (uint64_t i = 0; !::testing::Test::HasFailure(); ++i) {
    CUdeviceptr& block = blocks[i % 8];
    if (block != 0) cuMemFree(block);
    block = 0;
    EXPECT_EQ(cuMemAlloc(&block, size_t{1} << (12 + i % 16)), CUDA_SUCCESS);
    EXPECT_EQ(program.Launch(20), CUDA_SUCCESS);
    if (i % 4 == 0) cuStreamSynchronize(program.stream);
    if (i % 64 == 0) {
      cuDevicePrimaryCtxReset(0);
      std::fill(std::begin(blocks), std::end(blocks), 0);
      program.Open();
    }
  }
}

TEST_F(SharingTest, SixtyKillsHarmNobody) {
  MakeNode(1, 8192);
  std::mt19937 random(20261130);
  const pid_t witness = Start([] {
    Program program;
    program.Open();
    for (int i = 0; i < 100; ++i) {
      CUdeviceptr block = 0;
      KRUX_CUDA_OK(cuMemAlloc(&block, 4 << 20));
      KRUX_CUDA_OK(program.Launch(200));
      KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
      KRUX_CUDA_OK(cuMemFree(block));
    }
  });
  for (int round = 0; round < 60; round += 3) {
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) children.push_back(Start([] { Churn(); }));
    for (const pid_t child : children) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
      kill(child, SIGKILL);
    }
    for (const pid_t child : children) ASSERT_EQ(ExitCode(child), 128 + SIGKILL);
    ASSERT_LE(Node().UsedMemory(0), 8192 * kTestMiB);
  }
  EXPECT_EQ(ExitCode(witness), 0);
  EXPECT_EQ(Node().UsedMemory(0), 0U);
  EXPECT_TRUE(Node().Processes(0).empty());
  EXPECT_EQ(CardShare(&Node().card(0)).ReadAt(MonotonicNow()).busy, 0U);
  InChild([] {
    Program program;
    program.Open();
    CUdeviceptr all = 0;
    KRUX_CUDA_OK(cuMemAlloc(&all, (8192 - 526 - 4) * kTestMiB));
    KRUX_CUDA_OK(program.Launch(100));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
  });
}

TEST_F(SharingTest, KilledNeighbourStopsTakingTime) {
  MakeNode();
  auto* running = Shared<std::atomic<int>>();
  const pid_t neighbour = Start([=] {
    Program program;
    program.Open();
    KRUX_CUDA_OK(program.Launch(3'000'000));
    running->store(1);
    pause();
  });
  while (running->load() == 0) std::this_thread::yield();
  kill(neighbour, SIGKILL);
  ExitCode(neighbour);
  InChild([] {
    Program program;
    program.Open();
    CUevent start = nullptr;
    CUevent end = nullptr;
    KRUX_CUDA_OK(cuEventCreate(&start, 0));
    KRUX_CUDA_OK(cuEventCreate(&end, 0));
    KRUX_CUDA_OK(cuEventRecord(start, program.stream));
    KRUX_CUDA_OK(program.Launch(200'000));
    KRUX_CUDA_OK(cuEventRecord(end, program.stream));
    KRUX_CUDA_OK(cuEventSynchronize(end));
    float milliseconds = 0;
    KRUX_CUDA_OK(cuEventElapsedTime(&milliseconds, start, end));
    // 440 ms if the dead neighbour still shared.
    EXPECT_LT(milliseconds, 300.0F);
  });
}

TEST_F(SharingTest, ForkedChildHoldsTheMemoryOfADeadParent) {
  MakeNode();
  auto* grandchild = Shared<std::atomic<pid_t>>();
  const pid_t child = Start([=] {
    Program program;
    program.Open();
    CUdeviceptr block = 0;
    KRUX_CUDA_OK(cuMemAlloc(&block, 1 << 30));
    const pid_t pid = fork();
    if (pid == 0) {
      if (cuInit(0) != CUDA_ERROR_NOT_INITIALIZED) _exit(1);
      grandchild->store(getpid());
      pause();
    }
    pause();
  });
  while (grandchild->load() == 0) std::this_thread::yield();
  kill(child, SIGKILL);
  ExitCode(child);
  EXPECT_EQ(Node().UsedMemory(0), (1024 + 518) * kTestMiB + kUnlisted);
  const std::vector<ProcessUse> processes = Node().Processes(0);
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_TRUE(processes[0].is_orphan);
  EXPECT_EQ(processes[0].pid, child);
  kill(grandchild->load(), SIGKILL);
  const Nanos end = MonotonicNow() + 10 * kSecond;
  while (Node().UsedMemory(0) != 0 && MonotonicNow() < end) std::this_thread::yield();
  EXPECT_EQ(Node().UsedMemory(0), 0U);
}

TEST_F(SharingTest, PidsAreThoseOfTheReadersNamespace) {
  MakeNode();
  auto* ready = Shared<std::atomic<int>>();
  auto* host_pid = Shared<std::atomic<pid_t>>();
  const pid_t child = Start([=] {
    if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
      ready->store(-1);
      return;
    }
    const pid_t inside = fork();
    if (inside == 0) {
      Program program;
      program.Open();
      EXPECT_EQ(getpid(), 1);
      const std::vector<ProcessUse> own = (*SharedState::Open(SimFolder()))->Processes(0);
      EXPECT_EQ(own.size(), 1U);
      EXPECT_EQ(own[0].pid, 1);
      ready->store(::testing::Test::HasFailure() ? 2 : 1);
      pause();
    }
    host_pid->store(inside);
    pause();
  });
  while (ready->load() == 0) std::this_thread::yield();
  if (ready->load() < 0) {
    ExitCode(child);
    GTEST_SKIP() << "no right to make a pid namespace";
  }
  EXPECT_EQ(ready->load(), 1);
  while (host_pid->load() == 0) std::this_thread::yield();
  const std::vector<ProcessUse> processes = Node().Processes(0);
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].pid, host_pid->load());
  EXPECT_FALSE(processes[0].is_orphan);
  kill(host_pid->load(), SIGKILL);
  kill(child, SIGKILL);
  ExitCode(child);
}

}  // namespace
}  // namespace krux::sim
