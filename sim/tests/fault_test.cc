// krux-sim breaks the node while programs run, and a broken file breaks no program.
#include "sim/state/fault.h"

#include <cstdio>
#include <random>

#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

class FaultTest : public SimTest {
 protected:
  void SetUp() override {
    SimTest::SetUp();
    MakeNode(2);
  }
  void Tool(const std::string& arguments) {
    const std::string command = std::string(KRUX_SIM_TOOL) + " " + arguments + " >/dev/null";
    ASSERT_EQ(system(command.c_str()), 0) << arguments;
  }
  // The tool's commands from a child, which must not share the parent's node.
  static void Break(const std::string& arguments) {
    const std::string command = std::string(KRUX_SIM_TOOL) + " " + arguments + " >/dev/null";
    EXPECT_EQ(system(command.c_str()), 0) << arguments;
  }
};

TEST_F(FaultTest, NthCallFailsWithTheCode) {
  Tool("fail cuMemAlloc --nth 2 --times 2 --code 719");
  InChild([] {
    Program program;
    program.Open();
    CUdeviceptr block = 0;
    EXPECT_EQ(cuMemAlloc(&block, 1 << 20), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAlloc(&block, 1 << 20), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(cuMemAlloc(&block, 1 << 20), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_EQ(cuMemAlloc(&block, 1 << 20), CUDA_SUCCESS);
  });
  EXPECT_TRUE(PlannedFaults(&Node()).empty());
}

TEST_F(FaultTest, ArgumentsSurviveAPlannedFault) {
  Tool("fail cuLaunchKernel --nth 3 --code 700");
  InChild([] {
    Program program;
    program.Open();
    EXPECT_EQ(program.Launch(10), CUDA_SUCCESS);
    EXPECT_EQ(program.Launch(10), CUDA_SUCCESS);
    EXPECT_EQ(program.Launch(10), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(program.Launch(10), CUDA_SUCCESS);
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
  });
}

TEST_F(FaultTest, CallsWithoutAModelCanFailToo) {
  Tool("fail cuTexObjectDestroy --code 700");
  InChild([] {
    Program program;
    program.Open();
    EXPECT_EQ(cuTexObjectDestroy(0), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_NE(cuTexObjectDestroy(0), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST_F(FaultTest, KillEndsTheCallerAndLeavesNothing) {
  for (const char* call : {"cuMemAlloc", "cuLaunchKernel", "cuStreamSynchronize", "cuMemFree"}) {
    Tool(std::string("kill ") + call);
    const pid_t child = Start([] {
      Program program;
      program.Open();
      CUdeviceptr block = 0;
      cuMemAlloc(&block, 64 << 20);
      program.Launch(100);
      cuStreamSynchronize(program.stream);
      cuMemFree(block);
    });
    EXPECT_EQ(ExitCode(child), 128 + SIGKILL) << call;
    EXPECT_EQ(Node().UsedMemory(0), 0U) << call;
  }
}

TEST_F(FaultTest, OnlyTheNamedProcessIsMeant) {
  Tool("fail '*' --times 100000 --code 999 --pid 1");
  InChild([] {
    Program program;
    program.Open();
    KRUX_CUDA_OK(program.Launch(10));
  });
  EXPECT_EQ(PlannedFaults(&Node()).size(), 1U);
  Tool("clear");
  EXPECT_EQ(Node().data().faults_armed.load(), 0U);
}

TEST_F(FaultTest, SlowCallsTakeTheirTime) {
  Tool("slow cuMemAlloc --ms 30");
  InChild([] {
    Program program;
    program.Open();
    const Nanos start = MonotonicNow();
    CUdeviceptr block = 0;
    KRUX_CUDA_OK(cuMemAlloc(&block, 1 << 20));
    EXPECT_GE(MonotonicNow() - start, 30 * kMillisecond);
  });
}

TEST_F(FaultTest, ContextsOfALostOrResetCardStayDead) {
  for (const std::string how : {"lose 0", "reset 0", "ecc 0 --uncorrected 1"}) {
    InChild([&] {
      Program program;
      program.Open();
      KRUX_CUDA_OK(program.Launch(10));
      Break(how);
      EXPECT_NE(program.Launch(10), CUDA_SUCCESS) << how;
      Break("heal 0");
      Break("reset 0");
      EXPECT_NE(program.Launch(10), CUDA_SUCCESS) << how;
    });
    InChild([] {
      Program program;
      program.Open();
      KRUX_CUDA_OK(program.Launch(10));
    });
  }
}

TEST_F(FaultTest, WantsAResetAfterAnUncorrectedError) {
  Tool("ecc 0 --corrected 3 --uncorrected 1");
  InChild([] {
    KRUX_CUDA_OK(cuInit(0));
    CUcontext context = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_DEVICE_UNAVAILABLE);
  });
  EXPECT_EQ(Node().card(0).health.ecc_corrected.load(), 3U);
  EXPECT_EQ(Node().card(0).health.xid_log[0].load(), 48U);
  Tool("reset 0");
  EXPECT_EQ(Node().card(0).health.ecc_corrected.load(), 0U);
  EXPECT_EQ(Node().card(0).health.ecc_corrected_aggregate.load(), 3U);
}

TEST_F(FaultTest, RefusesPlansThatMeanNothing) {
  EXPECT_FALSE(PlanFault(&Node(), {.call = "malloc"}));
  EXPECT_FALSE(PlanFault(&Node(), {.call = std::string(80, 'c').insert(0, "cu")}));
  EXPECT_FALSE(PlanFault(&Node(), {.call = "cuInit", .nth = 0}));
  for (uint32_t i = 0; i < kMaxFaults; ++i) EXPECT_TRUE(PlanFault(&Node(), {.call = "cuInit"}));
  EXPECT_FALSE(PlanFault(&Node(), {.call = "cuInit"}));
}

TEST_F(FaultTest, VirtualTimeMovesWhenItIsTold) {
  Tool("advance 0");
  InChild([] {
    Program program;
    program.Open();
    KRUX_CUDA_OK(program.Launch(1000));
    EXPECT_EQ(cuStreamQuery(program.stream), CUDA_ERROR_NOT_READY);
    Break("advance 900");
    EXPECT_EQ(cuStreamQuery(program.stream), CUDA_ERROR_NOT_READY);
    Break("advance 200");
    EXPECT_EQ(cuStreamQuery(program.stream), CUDA_SUCCESS);
    CUdeviceptr block = 0;
    KRUX_CUDA_OK(cuMemAlloc(&block, 4096));
    KRUX_CUDA_OK(cuMemsetD32Async(block, 7, 1024, program.stream));
    Break("advance 100000");
    EXPECT_EQ(cuStreamQuery(program.stream), CUDA_SUCCESS);
  });
}

// Programs on a node whose file others fill with garbage: they may be refused and get nonsense, but
// they end, and without a crash.
TEST_F(FaultTest, GarbageInTheNodeCrashesNobody) {
  std::mt19937_64 random(20261130);
  for (int round = 0; round < 40; ++round) {
    std::filesystem::remove(folder_ + "/state");
    ASSERT_TRUE(CreateState(folder_, NodeOptions{}));
    FILE* file = fopen((folder_ + "/state").c_str(), "r+");
    ASSERT_NE(file, nullptr);
    const int changes = 1 + static_cast<int>(random() % 2000);
    for (int i = 0; i < changes; ++i) {
      // The head of the file, the first card, and its turns get most of it.
      const size_t range = round % 2 == 0 ? sizeof(State) : 64 * 1024;
      fseek(file, static_cast<long>(random() % range & ~size_t{7}), SEEK_SET);
      const uint64_t word = random() >> random() % 64;
      fwrite(&word, sizeof word, 1, file);
    }
    fclose(file);
    const pid_t child = Start([] {
      alarm(20);
      if (cuInit(0) != CUDA_SUCCESS) return;
      CUcontext context = nullptr;
      if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS) return;
      cuCtxSetCurrent(context);
      CUdeviceptr block = 0;
      cuMemAlloc(&block, 1 << 20);
      size_t free = 0;
      size_t total = 0;
      cuMemGetInfo(&free, &total);
      CUmodule module = nullptr;
      CUfunction loop = nullptr;
      if (cuModuleLoadData(&module, kPtx) != CUDA_SUCCESS) return;
      if (cuModuleGetFunction(&loop, module, "fma_loop") != CUDA_SUCCESS) return;
      unsigned iters = 10;
      void* parameters[] = {&block, &iters};
      cuLaunchKernel(loop, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
      cuStreamQuery(nullptr);
    });
    EXPECT_EQ(ExitCode(child), 0) << round;
  }
}

}  // namespace
}  // namespace krux::sim
