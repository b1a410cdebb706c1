// NVML tells what CUDA did, also in other processes, and what krux-sim broke.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <dlfcn.h>

#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

class NvmlTest : public SimTest {
 protected:
  template <typename... Arguments>
  nvmlReturn_t Call(const char* name, Arguments... arguments) {
    static void* library = dlopen(KRUX_SIM_NVML, RTLD_NOW | RTLD_LOCAL);
    auto* function = reinterpret_cast<nvmlReturn_t (*)(Arguments...)>(dlsym(library, name));
    EXPECT_NE(function, nullptr) << name;
    return function == nullptr ? NVML_ERROR_UNKNOWN : function(arguments...);
  }
  nvmlDevice_t Device(unsigned int index = 0) {
    nvmlDevice_t device = nullptr;
    EXPECT_EQ(Call("nvmlInit_v2"), NVML_SUCCESS);
    EXPECT_EQ(Call("nvmlDeviceGetHandleByIndex_v2", index, &device), NVML_SUCCESS);
    return device;
  }
};

// All NVML use is in children: the library keeps its node open as long as its process lives.
TEST_F(NvmlTest, NamesItsDevices) {
  MakeNode(2);
  InChild([this] {
    unsigned int count = 0;
    EXPECT_EQ(Call("nvmlDeviceGetCount_v2", &count), NVML_ERROR_UNINITIALIZED);
    nvmlDevice_t device = Device(1);
    EXPECT_EQ(Call("nvmlDeviceGetCount_v2", &count), NVML_SUCCESS);
    EXPECT_EQ(count, 2U);
    char text[96] = {};
    EXPECT_EQ(Call("nvmlDeviceGetName", device, &text[0], 96U), NVML_SUCCESS);
    EXPECT_STREQ(text, "NVIDIA H200");
    EXPECT_EQ(Call("nvmlDeviceGetName", device, &text[0], 3U), NVML_ERROR_INSUFFICIENT_SIZE);
    EXPECT_EQ(Call("nvmlDeviceGetUUID", device, &text[0], 96U), NVML_SUCCESS);
    EXPECT_EQ(std::string(text).size(), 40U);
    nvmlDevice_t same = nullptr;
    EXPECT_EQ(Call("nvmlDeviceGetHandleByUUID", static_cast<const char*>(text), &same),
              NVML_SUCCESS);
    EXPECT_EQ(same, device);
    unsigned int minor = 9;
    EXPECT_EQ(Call("nvmlDeviceGetMinorNumber", device, &minor), NVML_SUCCESS);
    EXPECT_EQ(minor, 1U);
    EXPECT_EQ(Call("nvmlDeviceGetFanSpeed"), NVML_ERROR_NOT_SUPPORTED);
  });
}

TEST_F(NvmlTest, ShowsMemoryOfEveryProcess) {
  MakeNode();
  auto* ready = Shared<std::atomic<int>>();
  const pid_t user = Start([=] {
    Program program;
    program.Open();
    CUdeviceptr block = 0;
    KRUX_CUDA_OK(cuMemAlloc(&block, 1 << 30));
    ready->store(1);
    pause();
  });
  while (ready->load() == 0) sched_yield();
  InChild([=, this] {
    nvmlDevice_t device = Device();
    nvmlMemory_t memory{};
    EXPECT_EQ(Call("nvmlDeviceGetMemoryInfo", device, &memory), NVML_SUCCESS);
    EXPECT_EQ(memory.total, 143771 * kTestMiB);
    EXPECT_EQ(memory.used,
              (1024 + 518) * kTestMiB + kUnlisted + 644939776);  // what the driver keeps
    nvmlMemory_v2_t second{};
    second.version = nvmlMemory_v2;
    EXPECT_EQ(Call("nvmlDeviceGetMemoryInfo_v2", device, &second), NVML_SUCCESS);
    EXPECT_EQ(second.used, (1024 + 518) * kTestMiB + kUnlisted);
    EXPECT_EQ(second.reserved + second.used + second.free, second.total);
    nvmlProcessInfo_t processes[4];
    unsigned int count = 0;
    EXPECT_EQ(Call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, &processes[0]),
              NVML_ERROR_INSUFFICIENT_SIZE);
    EXPECT_EQ(count, 1U);
    count = 4;
    EXPECT_EQ(Call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, &processes[0]),
              NVML_SUCCESS);
    EXPECT_EQ(count, 1U);
    EXPECT_EQ(processes[0].pid, static_cast<unsigned int>(user));
    EXPECT_EQ(processes[0].usedGpuMemory, (1024 + 518) * kTestMiB);
  });
  kill(user, SIGKILL);
  ExitCode(user);
}

TEST_F(NvmlTest, SeesItsOwnProcess) {
  InChild([this] {
    Program program;
    program.Open();
    nvmlDevice_t device = Device();
    nvmlProcessInfo_t processes[4];
    unsigned int count = 4;
    EXPECT_EQ(Call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, &processes[0]),
              NVML_SUCCESS);
    EXPECT_EQ(count, 1U);
    EXPECT_EQ(processes[0].pid, static_cast<unsigned int>(getpid()));
  });
}

TEST_F(NvmlTest, LostCardIsLostUntilHealed) {
  MakeNode(2);
  InChild([this] {
    nvmlDevice_t device = Device(1);
    nvmlEventSet_t set = nullptr;
    nvmlEventData_t event{};
    EXPECT_EQ(Call("nvmlEventSetCreate", &set), NVML_SUCCESS);
    EXPECT_EQ(Call("nvmlDeviceRegisterEvents", device, 8ULL, set), NVML_SUCCESS);
    EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &event, 0U), NVML_ERROR_TIMEOUT);
    Node().ReportXid(1, 79);
    Node().LoseCard(1, true);
    EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &event, 0U), NVML_SUCCESS);
    EXPECT_EQ(event.device, device);
    EXPECT_EQ(event.eventData, 79U);
    EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &event, 0U), NVML_ERROR_TIMEOUT);
    nvmlMemory_t memory{};
    EXPECT_EQ(Call("nvmlDeviceGetMemoryInfo", device, &memory), NVML_ERROR_GPU_IS_LOST);
    KRUX_CUDA_OK(cuInit(0));
    CUcontext context = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 1), CUDA_ERROR_DEVICE_UNAVAILABLE);
    Node().LoseCard(1, false);
    EXPECT_EQ(Call("nvmlDeviceGetMemoryInfo", device, &memory), NVML_SUCCESS);
    KRUX_CUDA_OK(cuDevicePrimaryCtxRetain(&context, 1));
    EXPECT_EQ(Call("nvmlEventSetFree", set), NVML_SUCCESS);
  });
}

TEST_F(NvmlTest, TellsXidsAndEccErrorsOnce) {
  MakeNode();
  InChild([this] {
    nvmlDevice_t device = Device();
    nvmlEventSet_t set = nullptr;
    nvmlEventData_t event{};
    Node().ReportXid(0, 13);  // before the set watches: not told
    EXPECT_EQ(Call("nvmlEventSetCreate", &set), NVML_SUCCESS);
    EXPECT_EQ(Call("nvmlDeviceRegisterEvents", device, 10ULL, set), NVML_SUCCESS);
    Node().ReportXid(0, 31);
    Node().ReportXid(0, 43);
    for (const unsigned long long xid : {31ULL, 43ULL}) {
      EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &event, 0U), NVML_SUCCESS);
      EXPECT_EQ(event.eventData, xid);
    }
    Node().AddEccErrors(0, 0, 2);
    EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &event, 0U), NVML_SUCCESS);
    EXPECT_EQ(event.eventData, 48U);
    EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &event, 0U), NVML_SUCCESS);
    EXPECT_EQ(event.eventType, nvmlEventTypeDoubleBitEccError);
    EXPECT_EQ(Call("nvmlEventSetWait_v2", set, &event, 0U), NVML_ERROR_TIMEOUT);
    unsigned long long count = 0;
    EXPECT_EQ(Call("nvmlDeviceGetTotalEccErrors", device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                   NVML_VOLATILE_ECC, &count),
              NVML_SUCCESS);
    EXPECT_EQ(count, 2U);
    EXPECT_EQ(Call("nvmlEventSetFree", set), NVML_SUCCESS);
  });
}

TEST_F(NvmlTest, EachModelIsItself) {
  struct Expected {
    const char* model;
    unsigned int watts, cores, architecture;
    nvmlReturn_t mig, links;
  };
  for (const Expected& expected :
       {Expected{"H200", 700, 16896, 9, NVML_SUCCESS, NVML_SUCCESS},
        Expected{"H100", 700, 16896, 9, NVML_SUCCESS, NVML_SUCCESS},
        Expected{"A100", 400, 6912, 7, NVML_SUCCESS, NVML_SUCCESS},
        Expected{"L40S", 350, 18176, 8, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NOT_SUPPORTED},
        Expected{"L4", 72, 7424, 8, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NOT_SUPPORTED},
        Expected{"T4", 70, 2560, 6, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NOT_SUPPORTED}}) {
    std::filesystem::remove_all(folder_);
    NodeOptions options;
    options.model = expected.model;
    options.gpus = 4;
    options.numa_nodes = 2;
    ASSERT_TRUE(CreateState(folder_, options));
    InChild([&, this] {
      nvmlDevice_t device = Device(3);
      unsigned int value = 0;
      EXPECT_EQ(Call("nvmlDeviceGetEnforcedPowerLimit", device, &value), NVML_SUCCESS);
      EXPECT_EQ(value, expected.watts * 1000) << expected.model;
      EXPECT_EQ(Call("nvmlDeviceGetNumGpuCores", device, &value), NVML_SUCCESS);
      EXPECT_EQ(value, expected.cores) << expected.model;
      EXPECT_EQ(Call("nvmlDeviceGetArchitecture", device, &value), NVML_SUCCESS);
      EXPECT_EQ(value, expected.architecture) << expected.model;
      EXPECT_EQ(Call("nvmlDeviceGetNumaNodeId", device, &value), NVML_SUCCESS);
      EXPECT_EQ(value, 1U);
      unsigned int pending = 0;
      EXPECT_EQ(Call("nvmlDeviceGetMigMode", device, &value, &pending), expected.mig);
      nvmlEnableState_t active{};
      EXPECT_EQ(Call("nvmlDeviceGetNvLinkState", device, 0U, &active), expected.links);
      KRUX_CUDA_OK(cuInit(0));
      int processors = 0;
      KRUX_CUDA_OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 3));
      EXPECT_EQ(expected.cores % static_cast<unsigned int>(processors), 0U);
    });
  }
}

TEST_F(NvmlTest, ShowsWhoIsBusy) {
  InChild([this] {
    Program program;
    program.Open();
    nvmlDevice_t device = Device();
    nvmlUtilization_t utilization{};
    EXPECT_EQ(Call("nvmlDeviceGetUtilizationRates", device, &utilization), NVML_SUCCESS);
    EXPECT_EQ(utilization.gpu, 0U);
    for (int i = 0; i < 500; ++i) KRUX_CUDA_OK(program.Launch(1000));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    EXPECT_EQ(Call("nvmlDeviceGetUtilizationRates", device, &utilization), NVML_SUCCESS);
    EXPECT_GT(utilization.gpu, 80U);
    nvmlProcessUtilizationSample_t samples[4];
    unsigned int count = 4;
    EXPECT_EQ(Call("nvmlDeviceGetProcessUtilization", device, &samples[0], &count, 0ULL),
              NVML_SUCCESS);
    EXPECT_EQ(count, 1U);
    EXPECT_EQ(samples[0].pid, static_cast<unsigned int>(getpid()));
    EXPECT_GT(samples[0].smUtil, 80U);
  });
}

}  // namespace
}  // namespace krux::sim
