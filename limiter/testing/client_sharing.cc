#include "limiter/testing/client_sharing.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr size_t kMiB = size_t{1} << 20;

void Cards() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  unsigned count = 0;
  reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"))();
  reinterpret_cast<int (*)(unsigned*)>(dlsym(library, "nvmlDeviceGetCount_v2"))(&count);
  printf("cards");
  for (unsigned i = 0; i < count; ++i) {
    void* device = nullptr;
    struct {
      unsigned long long total, free, used;
    } memory{};
    reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"))(
        i, &device);
    const int result = reinterpret_cast<int (*)(void*, void*)>(
        dlsym(library, "nvmlDeviceGetMemoryInfo"))(device, &memory);
    printf(" %d:%llu", result, memory.used / kMiB);
  }
  printf("\n");
}

void Peers() {
  int count = 0;
  cuDeviceGetCount(&count);
  std::vector<CUcontext> contexts(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    cuDevicePrimaryCtxRetain(&contexts[static_cast<size_t>(i)], i);
  }
  printf("peers");
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      int can = -1, native = -1;
      const CUresult asked = cuDeviceCanAccessPeer(&can, from, to);
      const CUresult attribute =
          cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, from, to);
      cuCtxSetCurrent(contexts[static_cast<size_t>(from)]);
      const CUresult enabled = cuCtxEnablePeerAccess(contexts[static_cast<size_t>(to)], 0);
      printf(" %d-%d:%d/%d/%d/%d/%d", from, to, asked, can, attribute, native, enabled);
    }
  }
  printf("\n");
}

void Share(size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  int fd = -1;
  CUresult result = cuMemCreate(&handle, bytes, &properties, 0);
  if (result == CUDA_SUCCESS) {
    result = cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  }
  printf("share %d as %d:%d;\n", result, getpid(), fd);
}

// Mapped as well, so that nothing of what a program does with it is left out.
void Import(size_t pid, size_t fd) {
  const long process = syscall(SYS_pidfd_open, pid, 0);
  const long mine = syscall(SYS_pidfd_getfd, process, fd, 0);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  CUresult result = cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(mine),
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result == CUDA_SUCCESS) result = cuMemAddressReserve(&address, 64 * kMiB, 0, 0, 0);
  if (result == CUDA_SUCCESS) result = cuMemMap(address, 64 * kMiB, 0, handle, 0);
  printf("import %d\n", result);
}

void IpcGet() {
  CUdeviceptr address = 0;
  CUipcMemHandle handle{};
  CUresult result = cuMemAlloc(&address, 2 * kMiB);
  if (result == CUDA_SUCCESS) result = cuIpcGetMemHandle(&handle, address);
  printf("ipcget %d as ", result);
  for (const char byte : handle.reserved) printf("%02x", static_cast<unsigned char>(byte));
  printf(";\n");
}

void IpcOpen(const std::string& hex) {
  CUipcMemHandle handle{};
  for (size_t i = 0; i < sizeof handle.reserved && 2 * i + 1 < hex.size(); ++i) {
    handle.reserved[i] = static_cast<char>(strtoul(hex.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  CUdeviceptr address = 0;
  printf("ipcopen %d\n", cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

}  // namespace

bool DoSharing(const std::string& command, const std::vector<size_t>& n, const std::string& word) {
  if (command == "cards") {
    Cards();
  } else if (command == "peers") {
    Peers();
  } else if (command == "share") {
    Share(n[0]);
  } else if (command == "import") {
    Import(n[0], n[1]);
  } else if (command == "ipcget") {
    IpcGet();
  } else if (command == "ipcopen") {
    IpcOpen(word);
  } else {
    return false;
  }
  fflush(stdout);
  return true;
}
