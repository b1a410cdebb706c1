// Memory: the H200's granularity, bytes that really move, and limits that hold.
#include <vector>

#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

using MemoryTest = SimTest;

// How much of the card `count` allocations of `bytes` take, and what stays after all but the last
// are freed.
void ExpectTaken(size_t bytes, int count, uint64_t taken_mib, uint64_t left_mib) {
  const uint64_t before = FreeMiB();
  std::vector<CUdeviceptr> blocks(static_cast<size_t>(count));
  for (CUdeviceptr& block : blocks) KRUX_CUDA_OK(cuMemAlloc(&block, bytes));
  EXPECT_EQ(before - FreeMiB(), taken_mib) << bytes;
  for (int i = 0; i + 1 < count; ++i) KRUX_CUDA_OK(cuMemFree(blocks[static_cast<size_t>(i)]));
  EXPECT_EQ(before - FreeMiB(), left_mib) << bytes;
  KRUX_CUDA_OK(cuMemFree(blocks.back()));
  EXPECT_EQ(before, FreeMiB()) << bytes;
}

TEST_F(MemoryTest, TakesWhatAnH200Takes) {
  InChild([] {
    Program program;
    program.Open();
    EXPECT_EQ(FreeMiB(), 143155U - 526U);
    ExpectTaken(1, 64, 2, 2);
    ExpectTaken(65536, 64, 4, 2);
    ExpectTaken(786432, 64, 64, 2);
    ExpectTaken(1048576, 64, 64, 2);
    ExpectTaken(1048577, 64, 128, 2);
    ExpectTaken((2 << 20) + 1, 64, 256, 4);
    ExpectTaken((16 << 20) + 1, 4, 72, 18);
  });
}

TEST_F(MemoryTest, SlabStaysWithItsLastBlock) {
  InChild([] {
    Program program;
    program.Open();
    const uint64_t before = FreeMiB();
    std::vector<CUdeviceptr> blocks(64);
    for (CUdeviceptr& block : blocks) KRUX_CUDA_OK(cuMemAlloc(&block, 1 << 20));
    for (size_t i = 0; i < blocks.size(); i += 2) KRUX_CUDA_OK(cuMemFree(blocks[i]));
    EXPECT_EQ(before - FreeMiB(), 64U);
  });
}

TEST_F(MemoryTest, GivesAllOfTheCardAndNoMore) {
  InChild([] {
    Program program;
    program.Open();
    CUdeviceptr most = 0;
    // 3 MiB are left, which the card keeps.
    KRUX_CUDA_OK(cuMemAlloc(&most, (143155 - 526 - 3) * kTestMiB));
    EXPECT_EQ(FreeMiB(), 3U);
    CUdeviceptr more = 0;
    EXPECT_EQ(cuMemAlloc(&more, 2 * kTestMiB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cuMemAlloc(&more, ~size_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
    KRUX_CUDA_OK(cuMemFree(most));
    KRUX_CUDA_OK(cuMemAlloc(&more, 2 * kTestMiB));
  });
}

TEST_F(MemoryTest, MovesBytes) {
  InChild([] {
    Program program;
    program.Open();
    CUdeviceptr a = 0;
    CUdeviceptr b = 0;
    KRUX_CUDA_OK(cuMemAlloc(&a, 3 << 20));
    KRUX_CUDA_OK(cuMemAlloc(&b, 3 << 20));
    KRUX_CUDA_OK(cuMemsetD32(a, 0x12345678, (3 << 20) / 4));
    KRUX_CUDA_OK(cuMemcpyDtoD(b, a, 3 << 20));
    std::vector<uint32_t> back((3 << 20) / 4);
    KRUX_CUDA_OK(cuMemcpyDtoH(back.data(), b, 3 << 20));
    EXPECT_EQ(back.front(), 0x12345678U);
    EXPECT_EQ(back.back(), 0x12345678U);
    back.assign(back.size(), 7);
    KRUX_CUDA_OK(cuMemcpyHtoDAsync(a, back.data(), 3 << 20, program.stream));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    KRUX_CUDA_OK(cuMemsetD8(a, 0, 2 << 20));
    KRUX_CUDA_OK(cuMemcpyDtoH(back.data(), a, 3 << 20));
    EXPECT_EQ(back.front(), 0U);
    EXPECT_EQ(back.back(), 7U);
    EXPECT_EQ(cuMemcpyDtoH(back.data(), a + 1, 3 << 20), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST_F(MemoryTest, ArrayKeepsItsRows) {
  InChild([] {
    Program program;
    program.Open();
    const CUDA_ARRAY_DESCRIPTOR shape = {100, 50, CU_AD_FORMAT_FLOAT, 1};
    CUarray array = nullptr;
    KRUX_CUDA_OK(cuArrayCreate(&array, &shape));
    std::vector<float> rows(100 * 50);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = rows.data();
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.WidthInBytes = 400;
    copy.Height = 50;
    KRUX_CUDA_OK(cuMemcpy2D(&copy));
    float one = 0;
    CUDA_MEMCPY2D back{};
    back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    back.srcArray = array;
    back.srcXInBytes = 40;
    back.srcY = 7;
    back.dstMemoryType = CU_MEMORYTYPE_HOST;
    back.dstHost = &one;
    back.WidthInBytes = 4;
    back.Height = 1;
    KRUX_CUDA_OK(cuMemcpy2D(&back));
    EXPECT_EQ(one, 710.0F);
    KRUX_CUDA_OK(cuArrayDestroy(array));
  });
}

TEST_F(MemoryTest, PoolsGrowInSteps) {
  InChild([] {
    Program program;
    program.Open();
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemoryPool pool = nullptr;
    KRUX_CUDA_OK(cuMemPoolCreate(&pool, &properties));
    const uint64_t before = FreeMiB();
    const size_t sizes[] = {1, 1 << 20, 33 << 20, 100 << 20};
    const uint64_t reserved[] = {32, 32, 64, 160};
    CUdeviceptr block = 0;
    for (int i = 0; i < 4; ++i) {
      KRUX_CUDA_OK(cuMemAllocFromPoolAsync(&block, sizes[i], pool, program.stream));
      EXPECT_EQ(before - FreeMiB(), reserved[i]);
    }
    KRUX_CUDA_OK(cuMemFreeAsync(block, program.stream));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    EXPECT_EQ(before - FreeMiB(), 64U);
  });
}

TEST_F(MemoryTest, VirtualMemoryIsPaidByItsHandle) {
  InChild([] {
    Program program;
    program.Open();
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    const uint64_t before = FreeMiB();
    CUdeviceptr range = 0;
    KRUX_CUDA_OK(cuMemAddressReserve(&range, 64 << 20, 0, 0, 0));
    EXPECT_EQ(before, FreeMiB());
    CUmemGenericAllocationHandle handle = 0;
    KRUX_CUDA_OK(cuMemCreate(&handle, 8 << 20, &properties, 0));
    EXPECT_EQ(before - FreeMiB(), 8U);
    EXPECT_EQ(cuMemsetD8(range, 1, 16), CUDA_ERROR_INVALID_VALUE);
    KRUX_CUDA_OK(cuMemMap(range, 8 << 20, 0, handle, 0));
    KRUX_CUDA_OK(cuMemRelease(handle));
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    KRUX_CUDA_OK(cuMemSetAccess(range, 8 << 20, &access, 1));
    KRUX_CUDA_OK(cuMemsetD8(range, 1, 8 << 20));
    KRUX_CUDA_OK(cuMemUnmap(range, 8 << 20));
    EXPECT_EQ(before, FreeMiB());
    KRUX_CUDA_OK(cuMemAddressFree(range, 64 << 20));
  });
}

TEST_F(MemoryTest, LocalMemoryGrowsInsideALaunch) {
  InChild([] {
    Program program;
    program.Open();
    CUfunction spills = nullptr;
    KRUX_CUDA_OK(cuModuleGetFunction(&spills, program.module, "spills"));
    int bytes = 0;
    KRUX_CUDA_OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, spills));
    EXPECT_EQ(bytes, 8192);
    const uint64_t before = FreeMiB();
    CUdeviceptr out = 0;
    void* parameters[] = {&out};
    KRUX_CUDA_OK(cuLaunchKernel(spills, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr));
    EXPECT_EQ(before - FreeMiB(), 1848U);
  });
}

TEST_F(MemoryTest, ManagedMemoryShowsOnTheCardButInNoProcess) {
  InChild([this] {
    Program program;
    program.Open();
    const uint64_t before = FreeMiB();
    CUdeviceptr managed = 0;
    KRUX_CUDA_OK(cuMemAllocManaged(&managed, 64 << 20, CU_MEM_ATTACH_GLOBAL));
    EXPECT_EQ(before, FreeMiB());
    KRUX_CUDA_OK(cuMemsetD8(managed, 1, 64 << 20));
    KRUX_CUDA_OK(cuCtxSynchronize());
    EXPECT_EQ(before - FreeMiB(), 128U);  // the driver's step
    EXPECT_EQ(*reinterpret_cast<char*>(managed), 1);
    CUdeviceptr second = 0;
    KRUX_CUDA_OK(cuMemAllocManaged(&second, 64 << 20, CU_MEM_ATTACH_GLOBAL));
    KRUX_CUDA_OK(cuMemsetD8(second, 1, 64 << 20));
    EXPECT_EQ(before - FreeMiB(), 128U);
    KRUX_CUDA_OK(cuMemFree(second));
    EXPECT_EQ(before - FreeMiB(), 64U);
    const std::vector<ProcessUse> processes = Node().Processes(0);
    ASSERT_EQ(processes.size(), 1U);
    EXPECT_EQ(processes[0].used_bytes, 518 * kTestMiB);
  });
}

}  // namespace
}  // namespace krux::sim
