// cuGetProcAddress, names, errors, visibility of cards.
#include <dlfcn.h>

#include <cstring>
#include <thread>

#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

using LookupTest = SimTest;

void* Find(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result = cuGetProcAddress(name, &address, version, flags, &status);
  EXPECT_EQ(result, CUDA_SUCCESS);
  EXPECT_EQ(address != nullptr, status == CU_GET_PROC_ADDRESS_SUCCESS);
  return address;
}

void* Export(const char* name) { return dlsym(RTLD_DEFAULT, name); }

TEST_F(LookupTest, FindsTheFormOfAVersion) {
  EXPECT_EQ(Find("cuMemAlloc", 2000), Export("cuMemAlloc"));
  EXPECT_EQ(Find("cuMemAlloc", 3020), Export("cuMemAlloc_v2"));
  EXPECT_EQ(Find("cuMemAlloc", 13000), Export("cuMemAlloc_v2"));
  EXPECT_EQ(Find("cuCtxCreate", 11030), Export("cuCtxCreate_v2"));
  EXPECT_EQ(Find("cuCtxCreate", 11040), Export("cuCtxCreate_v3"));
  EXPECT_EQ(Find("cuCtxCreate", 12080), Export("cuCtxCreate_v4"));
  EXPECT_EQ(Find("cuStreamWriteValue64", 9000), Export("cuStreamWriteValue64"));
  EXPECT_EQ(Find("cuStreamWriteValue64", 11070), Export("cuStreamWriteValue64_v2"));
  EXPECT_EQ(Find("cuGraphInstantiate", 11000), Export("cuGraphInstantiate_v2"));
}

TEST_F(LookupTest, FindsTheFormForThePerThreadStream) {
  constexpr auto kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  EXPECT_EQ(Find("cuLaunchKernel", 7000, kPerThread), Export("cuLaunchKernel_ptsz"));
  EXPECT_EQ(Find("cuLaunchKernel", 4000, kPerThread), nullptr);
  EXPECT_EQ(Find("cuMemcpyHtoD", 12000, kPerThread), Export("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(Find("cuMemAlloc", 12000, kPerThread), Export("cuMemAlloc_v2"));
  EXPECT_EQ(Find("cuLaunchKernel", 7000, CU_GET_PROC_ADDRESS_LEGACY_STREAM),
            Export("cuLaunchKernel"));
}

TEST_F(LookupTest, FindsItself) {
  EXPECT_EQ(Find("cuGetProcAddress", 11030), Export("cuGetProcAddress"));
  EXPECT_EQ(Find("cuGetProcAddress", 12000), Export("cuGetProcAddress_v2"));
}

TEST_F(LookupTest, SaysWhyANameIsNotThere) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(cuGetProcAddress("cuMemAllocAsync", &address, 11010, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(cuGetProcAddress("cuNoSuchName", &address, 13000, 0, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(cuGetProcAddress("cuInit", &address, 13000, 64, &status), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGetProcAddress("cuInit", &address, 99000, 0, &status), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LookupTest, RefusesWhatIsNotSimulated) {
  auto* call = reinterpret_cast<CUresult (*)()>(Export("cuGreenCtxCreate"));
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call(), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(LookupTest, NamesErrors) {
  const char* text = nullptr;
  KRUX_CUDA_OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  KRUX_CUDA_OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(555), &text), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LookupTest, NothingWorksBeforeInit) {
  InChild([] {
    int count = 0;
    CUdeviceptr block = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuMemAlloc(&block, 1), CUDA_ERROR_NOT_INITIALIZED);
    KRUX_CUDA_OK(cuInit(0));
    EXPECT_EQ(cuMemAlloc(&block, 1), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST_F(LookupTest, ShowsTheCardsThatAreChosen) {
  MakeNode(3);
  auto count_of = [](const char* chosen) {
    if (chosen != nullptr) setenv("CUDA_VISIBLE_DEVICES", chosen, 1);
    int count = 0;
    return cuInit(0) == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS ? count : 0;
  };
  InChild([&] { EXPECT_EQ(count_of(nullptr), 3); });
  InChild([&] { EXPECT_EQ(count_of("2,0"), 2); });
  InChild([&] { EXPECT_EQ(count_of("1,-1,0"), 1); });
  InChild([&] { EXPECT_EQ(count_of("GPU-not-there"), 0); });
  // As with device nodes: a card whose file is not there does not exist.
  std::filesystem::remove(folder_ + "/card1");
  InChild([&] { EXPECT_EQ(count_of(nullptr), 2); });
}

TEST_F(LookupTest, ThreadsHaveStreamsOfTheirOwn) {
  InChild([] {
    Program program;
    program.Open();
    void* memory = nullptr;
    KRUX_CUDA_OK(cuMemHostAlloc(&memory, 4096, 0));
    const auto address = reinterpret_cast<CUdeviceptr>(memory);
    // A wait in this thread's stream must not hold up the other thread's.
    KRUX_CUDA_OK(cuStreamWaitValue32(CU_STREAM_PER_THREAD, address, 1, CU_STREAM_WAIT_VALUE_EQ));
    std::thread([&] {
      KRUX_CUDA_OK(cuCtxSetCurrent(program.context));
      KRUX_CUDA_OK(cuStreamWriteValue32(CU_STREAM_PER_THREAD, address, 1, 0));
      KRUX_CUDA_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }).join();
    KRUX_CUDA_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  });
}

}  // namespace
}  // namespace krux::sim
