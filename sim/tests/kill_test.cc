// Processes that are killed in the middle of calls harm nobody: what they held comes back, others
// go on. KRUX_SIM_KILLS says how many are killed (100 by default; the whole test is 1000).
#include <sched.h>

#include <random>

#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

using KillTest = SimTest;

constexpr int kVictims = 3;

struct Progress {
  std::atomic<uint64_t> calls{0};
};

int Kills() {
  const char* kills = std::getenv("KRUX_SIM_KILLS");
  return kills != nullptr ? std::max(1, std::atoi(kills)) : 100;
}

// Calls of every family that changes the shared state, in an order that differs from life to life.
// Results do not matter: the card may be full.
void UseTheCard(unsigned seed, std::atomic<uint64_t>* calls) {
  std::minstd_rand random(seed);
  Program program;
  cuInit(0);
  while (cuDevicePrimaryCtxRetain(&program.context, 0) != CUDA_SUCCESS) calls->fetch_add(1);
  program.Open();
  CUcontext other = nullptr;
  while (true) {
    CUdeviceptr block = 0;
    switch (random() % 7) {
      case 0:
        if (cuMemAlloc(&block, 1 + random() % (256 << 20)) == CUDA_SUCCESS) cuMemFree(block);
        break;
      case 1:
        if (cuMemAlloc(&block, random() % (40 << 20) + 1) == CUDA_SUCCESS && random() % 8 != 0) {
          cuMemFree(block);
        }
        break;
      case 2:
        if (cuMemAllocAsync(&block, 1 << 20, program.stream) == CUDA_SUCCESS) {
          cuMemFreeAsync(block, program.stream);
        }
        break;
      case 3:
        if (cuMemAllocManaged(&block, 4 << 20, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS) {
          cuMemsetD8(block, 1, 1024);
          cuMemFree(block);
        }
        break;
      case 4:
        if (cuCtxCreate(&other, nullptr, 0, 0) == CUDA_SUCCESS) cuCtxDestroy(other);
        break;
      case 5:
        program.Launch(static_cast<unsigned>(5 + random() % 40));
        cuStreamSynchronize(program.stream);
        break;
      default:
        for (int i = 0; i < 8; ++i) program.Launch(20);
        break;
    }
    calls->fetch_add(1);
  }
}

// Waits until the counter has grown by `steps`; false: the process ended by itself.
bool WaitForCalls(std::atomic<uint64_t>* calls, uint64_t steps, pid_t pid) {
  const uint64_t target = calls->load() + steps;
  while (calls->load() < target) {
    if (waitpid(pid, nullptr, WNOHANG) != 0) return false;
    sched_yield();
  }
  return true;
}

class Victim {
 public:
  void StartLife(unsigned seed) {
    pid_ = fork();
    if (pid_ != 0) return;
    UseTheCard(seed, &progress_->calls);
    _exit(0);
  }
  bool IsUsingTheCard() { return WaitForCalls(&progress_->calls, 1, pid_); }
  // At a point that nobody chose: some calls and some turns of a loop from now.
  bool Kill(std::minstd_rand* random) {
    if (!WaitForCalls(&progress_->calls, 1 + (*random)() % 20, pid_)) return false;
    for (volatile unsigned turns = static_cast<unsigned>((*random)() % 20000); turns > 0;) {
      turns = turns - 1;
    }
    kill(pid_, SIGKILL);
    return waitpid(pid_, nullptr, 0) == pid_;
  }

 private:
  pid_t pid_ = 0;
  Progress* progress_ = new (mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Progress();
};

// What all seats together hold is never more than the card has.
void CheckSum(SharedState* node) {
  const Card& card = node->card(0);
  uint64_t sum = 0;
  for (const Seat& seat : card.seats) sum += seat.used_bytes.load() + seat.unlisted_bytes.load();
  EXPECT_LE(sum, card.memory_bytes);
}

TEST_F(KillTest, TheDeadLeaveNothingAndBlockNobody) {
  MakeNode(1, 8192);
  std::minstd_rand random(20240607);
  Victim survivor;
  survivor.StartLife(1);
  std::vector<Victim> victims(kVictims);
  unsigned lives = 2;
  for (Victim& victim : victims) victim.StartLife(lives++);
  for (int i = 0; i < Kills(); ++i) {
    Victim& victim = victims[random() % victims.size()];
    ASSERT_TRUE(victim.Kill(&random)) << "a process ended by itself, after " << i << " kills";
    CheckSum(&Node());
    victim.StartLife(lives++);
    if (i % 16 == 0) {
      ASSERT_TRUE(survivor.IsUsingTheCard());
    }
  }
  for (Victim& victim : victims) ASSERT_TRUE(victim.Kill(&random));
  ASSERT_TRUE(survivor.IsUsingTheCard());
  ASSERT_TRUE(survivor.Kill(&random));
  Node().ReleaseDead(0);
  const Card& card = Node().card(0);
  for (const Seat& seat : card.seats) {
    EXPECT_EQ(seat.own_pid.load(), 0U);
    EXPECT_EQ(seat.used_bytes.load() + seat.pending_bytes.load() + seat.unlisted_bytes.load(), 0U);
  }
  EXPECT_EQ(Node().FreeMemory(0), card.memory_bytes);
  EXPECT_TRUE(Node().Processes(0).empty());
}

}  // namespace
}  // namespace krux::sim
