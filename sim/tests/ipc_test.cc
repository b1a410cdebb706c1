// Memory of one process in another: IPC handles and exported descriptors.
#include <sys/socket.h>

#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

using IpcTest = SimTest;

struct Exchange {
  CUipcMemHandle handle;
  std::atomic<int> turn{0};
};

void WaitForTurn(Exchange* exchange, int turn) {
  while (exchange->turn.load() < turn) sched_yield();
}

void OpenContext() {
  CUcontext context = nullptr;
  KRUX_CUDA_OK(cuInit(0));
  KRUX_CUDA_OK(cuDevicePrimaryCtxRetain(&context, 0));
  KRUX_CUDA_OK(cuCtxSetCurrent(context));
}

TEST_F(IpcTest, AnotherProcessReadsAndWritesTheSameMemory) {
  auto* exchange = Shared<Exchange>();
  const pid_t owner = Start([=] {
    OpenContext();
    CUdeviceptr blocks[2] = {};
    KRUX_CUDA_OK(cuMemAlloc(&blocks[0], 4096));
    KRUX_CUDA_OK(cuMemAlloc(&blocks[1], 4096));  // the second of its slab
    KRUX_CUDA_OK(cuMemsetD32(blocks[1], 42, 1024));
    KRUX_CUDA_OK(cuIpcGetMemHandle(&exchange->handle, blocks[1]));
    exchange->turn.store(1);
    WaitForTurn(exchange, 2);
    unsigned word = 0;
    KRUX_CUDA_OK(cuMemcpyDtoH(&word, blocks[1] + 8, 4));
    EXPECT_EQ(word, 43U);
  });
  const pid_t other = Start([=] {
    WaitForTurn(exchange, 1);
    OpenContext();
    const uint64_t before = FreeMiB();
    CUdeviceptr block = 0;
    KRUX_CUDA_OK(cuIpcOpenMemHandle(&block, exchange->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    EXPECT_EQ(FreeMiB(), before);
    unsigned word = 0;
    KRUX_CUDA_OK(cuMemcpyDtoH(&word, block, 4));
    EXPECT_EQ(word, 42U);
    KRUX_CUDA_OK(cuMemsetD32(block + 8, 43, 1));
    KRUX_CUDA_OK(cuCtxSynchronize());
    EXPECT_EQ(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    KRUX_CUDA_OK(cuIpcCloseMemHandle(block));
    exchange->turn.store(2);
  });
  EXPECT_EQ(ExitCode(other), 0);
  exchange->turn.store(2);
  EXPECT_EQ(ExitCode(owner), 0);
}

TEST_F(IpcTest, RefusesHandlesThatAreNone) {
  InChild([] {
    OpenContext();
    CUdeviceptr block = 0;
    CUipcMemHandle handle = {};
    EXPECT_EQ(cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
              CUDA_ERROR_INVALID_VALUE);
    KRUX_CUDA_OK(cuMemAllocManaged(&block, 4096, CU_MEM_ATTACH_GLOBAL));
    EXPECT_EQ(cuIpcGetMemHandle(&handle, block), CUDA_ERROR_INVALID_VALUE);
    KRUX_CUDA_OK(cuMemAlloc(&block, 4096));
    KRUX_CUDA_OK(cuIpcGetMemHandle(&handle, block));
    EXPECT_EQ(cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
              CUDA_ERROR_INVALID_CONTEXT);
    // A descriptor of a living process that is something else.
    std::memset(reinterpret_cast<char*>(&handle) + 4, 0, 4);
    reinterpret_cast<char*>(&handle)[4] = 1;
    EXPECT_EQ(cuIpcOpenMemHandle(&block, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
              CUDA_ERROR_MAP_FAILED);
    CUmemGenericAllocationHandle imported = 0;
    EXPECT_EQ(cuMemImportFromShareableHandle(&imported, nullptr,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              CUDA_ERROR_UNKNOWN);
  });
}

CUdeviceptr MapWhole(CUmemGenericAllocationHandle handle, size_t bytes) {
  CUdeviceptr address = 0;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_EQ(cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(address, bytes, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemSetAccess(address, bytes, &access, 1), CUDA_SUCCESS);
  return address;
}

TEST_F(IpcTest, ExportedMemoryIsTheSameWhereverItIsMapped) {
  InChild([] {
    OpenContext();
    constexpr size_t kBytes = 4 << 20;
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemGenericAllocationHandle handle = 0;
    CUmemGenericAllocationHandle imported = 0;
    const uint64_t before = FreeMiB();
    KRUX_CUDA_OK(cuMemCreate(&handle, kBytes, &properties, 0));
    int fd = -1;
    KRUX_CUDA_OK(
        cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    KRUX_CUDA_OK(cuMemImportFromShareableHandle(&imported,
                                                reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    EXPECT_EQ(FreeMiB(), before - 4);  // paid for once
    const CUdeviceptr a = MapWhole(handle, kBytes);
    const CUdeviceptr b = MapWhole(imported, kBytes);
    KRUX_CUDA_OK(cuMemsetD32(a + 4096, 77, 1));
    unsigned word = 0;
    KRUX_CUDA_OK(cuMemcpyDtoH(&word, b + 4096, 4));
    EXPECT_EQ(word, 77U);
    KRUX_CUDA_OK(cuMemUnmap(a, kBytes));
    KRUX_CUDA_OK(cuMemcpyDtoH(&word, b + 4096, 4));
    EXPECT_EQ(word, 77U);
    close(fd);
  });
}

}  // namespace
}  // namespace krux::sim
