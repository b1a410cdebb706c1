// What the simulator's tests share: a node in a temporary folder, and children that use CUDA.
//
// A parent that called cuInit could fork no child that uses CUDA, so every test runs its CUDA code
// in children: InChild(body) forks, runs the body, and hands back its exit code.
#ifndef KRUX_SIM_TESTS_SIM_TEST_H_
#define KRUX_SIM_TESTS_SIM_TEST_H_

#include <cuda.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sim/state/state.h"

namespace krux::sim {

// What cuInit and a context take beside the context's 518 MiB, in no process's figure.
inline constexpr uint64_t kUnlisted = (13 << 20) / 4 + (89 << 20) / 16;

// Kernels: a loop whose cost is 2 us + 10 ns for each of its `iters`, and one with local memory.
inline constexpr char kPtx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry fma_loop(.param .u64 out, .param .u32 iters)\n{\n ret;\n}\n"
    ".visible .entry spills(.param .u64 out)\n{\n .local .align 4 .b8 a[8192];\n ret;\n}\n";

#define KRUX_CUDA_OK(call) ASSERT_EQ((call), CUDA_SUCCESS)

class SimTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = ::testing::TempDir() + "krux-sim-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    setenv("KRUX_SIM_FOLDER", folder_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void MakeNode(uint32_t gpus = 1, uint64_t memory_mib = 0) {
    NodeOptions options;
    options.gpus = gpus;
    options.memory_mib = memory_mib;
    ASSERT_TRUE(CreateState(folder_, options));
  }

  // The node as an observer sees it.
  SharedState& Node() {
    if (node_ == nullptr) {
      node_ = *SharedState::Open(folder_);
    }
    return *node_;
  }

  static pid_t Start(const std::function<void()>& body) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  static int ExitCode(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  static void InChild(const std::function<void()>& body) { EXPECT_EQ(ExitCode(Start(body)), 0); }

  // Counters that parent and children see.
  template <typename T>
  static T* Shared() {
    void* memory =
        mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return new (memory) T();
  }

  std::string folder_;

 private:
  SharedState* node_ = nullptr;
};

// A context on device 0 with the kernels above.
struct Program {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction loop = nullptr;
  CUstream stream = nullptr;

  void Open() {
    KRUX_CUDA_OK(cuInit(0));
    KRUX_CUDA_OK(cuDevicePrimaryCtxRetain(&context, 0));
    KRUX_CUDA_OK(cuCtxSetCurrent(context));
    KRUX_CUDA_OK(cuModuleLoadData(&module, kPtx));
    KRUX_CUDA_OK(cuModuleGetFunction(&loop, module, "fma_loop"));
    KRUX_CUDA_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  // One kernel that fills the card.
  CUresult Launch(unsigned microseconds) {
    CUdeviceptr out = 0;
    unsigned iters = microseconds > 2 ? (microseconds - 2) * 100 : 0;
    void* parameters[] = {&out, &iters};
    return cuLaunchKernel(loop, 132 * 8, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr);
  }
};

constexpr uint64_t kTestMiB = 1024 * 1024;

inline uint64_t FreeMiB() {
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free / kTestMiB;
}

}  // namespace krux::sim

#endif  // KRUX_SIM_TESTS_SIM_TEST_H_
