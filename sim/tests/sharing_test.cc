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

// Keeps a queue of 1 ms kernels until `end`; returns how many were done.
uint64_t Saturate(Program* program, Nanos end) {
  constexpr int kDepth = 8;
  CUevent events[kDepth];
  for (CUevent& event : events) EXPECT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  uint64_t launched = 0;
  while (MonotonicNow() < end) {
    CUevent event = events[launched % kDepth];
    EXPECT_EQ(cuEventSynchronize(event), CUDA_SUCCESS);
    EXPECT_EQ(program->Launch(1000), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(event, program->stream), CUDA_SUCCESS);
    ++launched;
  }
  return launched - std::min<uint64_t>(launched, kDepth);
}

struct Rates {
  std::atomic<int> ready{0};
  std::atomic<Nanos> start{0};
  std::atomic<uint64_t> done[4] = {};
};

// Kernels done by each of `tenants` processes that saturate the card for half a second.
std::vector<uint64_t> Compete(int tenants, const std::function<pid_t(std::function<void()>)>& start) {
  void* memory = mmap(nullptr, sizeof(Rates), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* rates = new (memory) Rates();
  std::vector<pid_t> children;
  for (int i = 0; i < tenants; ++i) {
    children.push_back(start([=] {
      Program program;
      program.Open();
      rates->ready.fetch_add(1);
      while (rates->start.load() == 0) std::this_thread::yield();
      rates->done[i].store(Saturate(&program, rates->start.load() + 500 * kMillisecond));
    }));
  }
  while (rates->ready.load() < tenants) std::this_thread::yield();
  rates->start.store(MonotonicNow());
  std::vector<uint64_t> result;
  for (int i = 0; i < tenants; ++i) {
    int status = 0;
    waitpid(children[static_cast<size_t>(i)], &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (int i = 0; i < tenants; ++i) result.push_back(rates->done[i].load());
  return result;
}

TEST_F(SharingTest, TwoTenantsGetHalfEachOfWhatSwitchingLeaves) {
  MakeNode();
  const auto start = [](std::function<void()> body) { return Start(body); };
  const uint64_t alone = Compete(1, start)[0];
  const std::vector<uint64_t> both = Compete(2, start);
  const double a = static_cast<double>(both[0]) / static_cast<double>(alone);
  const double b = static_cast<double>(both[1]) / static_cast<double>(alone);
  EXPECT_NEAR(a, 0.454, 0.08);
  EXPECT_NEAR(b, 0.454, 0.08);
}

TEST_F(SharingTest, ServiceIsSplitExactly) {
  MakeNode();
  CardShare share(&Node().card(0));
  const Nanos start = 1'000'000 * kSecond;
  share.Join(3, start);
  const CardShare::Sample alone = share.Read(start);
  EXPECT_EQ(CardShare::ServiceBetween(alone, share.Read(start + kSecond)), kSecond);
  share.Join(9, start + kSecond);
  const CardShare::Sample two = share.Read(start + kSecond);
  EXPECT_NEAR(static_cast<double>(CardShare::ServiceBetween(two, share.Read(start + 2 * kSecond))),
              0.454e9, 1e3);
  share.Leave(3, start + 2 * kSecond);
  share.Leave(9, start + 3 * kSecond);
  const CardShare::Sample end = share.Read(start + 9 * kSecond);
  EXPECT_EQ(end.busy, 0U);
  EXPECT_NEAR(static_cast<double>(CardShare::ServiceBetween(alone, end)), 2.454e9, 1e3);
  // After hours without work the halves of the clock have wrapped; a new start is not confused.
  EXPECT_EQ(share.Join(3, start + 10'000 * kSecond), start + 10'000 * kSecond);
}

TEST_F(SharingTest, TwoProcessesTogetherNeverGetMoreThanTheCardHas) {
  MakeNode(1, 4096);
  auto* granted = Shared<std::atomic<uint64_t>>();
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(Start([=] {
      Program program;
      program.Open();
      CUdeviceptr block = 0;
      uint64_t mine = 518;
      while (cuMemAlloc(&block, 2 << 20) == CUDA_SUCCESS) mine += 2;
      granted->fetch_add(mine);
      while (granted->load() < 4 * 518) std::this_thread::yield();
      pause();
    }));
  }
  // All four are full when together they hold nearly everything; then nobody may hold more.
  while (granted->load() < 4090) std::this_thread::yield();
  EXPECT_LE(granted->load(), 4096U);
  EXPECT_EQ(Node().UsedMemory(0), granted->load() * kTestMiB);
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) ExitCode(child);
  EXPECT_EQ(Node().UsedMemory(0), 0U);
}

// Everything that touches the shared state, for ever.
void Churn() {
  Program program;
  program.Open();
  CUdeviceptr blocks[8] = {};
  for (uint64_t i = 0;; ++i) {
    CUdeviceptr& block = blocks[i % 8];
    if (block != 0) cuMemFree(block);
    block = 0;
    cuMemAlloc(&block, size_t{1} << (12 + i % 16));
    program.Launch(20);
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
  EXPECT_EQ(CardShare(&Node().card(0)).Read(MonotonicNow()).busy, 0U);
  InChild([] {
    Program program;
    program.Open();
    CUdeviceptr all = 0;
    KRUX_CUDA_OK(cuMemAlloc(&all, (8192 - 518) * kTestMiB));
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
  EXPECT_EQ(Node().UsedMemory(0), (1024 + 518) * kTestMiB);
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
