// Other processes that cases need: `krux-conformance --helper name`. What they learn is their exit
// code; each begins before any library was opened, so that they may fork.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "sim/conformance/case.h"
#include "sim/conformance/nvml_call.h"

namespace krux::sim::conformance {
namespace {

constexpr size_t kChunk = 2 << 20;
constexpr int kNotEven = 250;  // something before the question itself failed

bool Open() {
  return CU(cuInit, 0U) == CUDA_SUCCESS && CU(cuCtxSetCurrent, PrimaryContext()) == CUDA_SUCCESS;
}

int WaitFor(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kNotEven;
}

// cuInit in a child that was forked after the parent's: its result.
int ForkChild() {
  if (CU(cuInit, 0U) != CUDA_SUCCESS) return kNotEven;
  const pid_t pid = fork();
  if (pid == 0) _exit(static_cast<int>(CU(cuInit, 0U)));
  return WaitFor(pid);
}

// The byte that an importer reads of an exporter's memory (42), or 100 + the result that failed.
int IpcMemory() {
  int to_importer[2];
  int to_exporter[2];
  if (pipe(to_importer) != 0 || pipe(to_exporter) != 0) return kNotEven;
  const pid_t exporter = fork();
  char done = 0;
  CUipcMemHandle handle{};
  if (exporter == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CUdeviceptr pointer = 0;
    if (!Open()) _exit(1);
    CU(cuMemAlloc, &pointer, kChunk);
    CU(cuMemsetD8, pointer, static_cast<unsigned char>(42), kChunk);
    CU(cuCtxSynchronize);
    CU(cuIpcGetMemHandle, &handle, pointer);
    if (write(to_importer[1], &handle, sizeof handle) < 0) _exit(1);
    _exit(read(to_exporter[0], &done, 1) == 1 ? 0 : 1);
  }
  close(to_importer[1]);
  if (!Open() || read(to_importer[0], &handle, sizeof handle) != sizeof handle) return kNotEven;
  CUdeviceptr pointer = 0;
  unsigned char byte = 0;
  CUresult result =
      CU(cuIpcOpenMemHandle, &pointer, handle, unsigned{CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS});
  if (result == CUDA_SUCCESS) result = CU(cuMemcpyDtoH, &byte, pointer + 1000, 1);
  if (result == CUDA_SUCCESS) result = CU(cuIpcCloseMemHandle, pointer);
  if (write(to_exporter[1], &done, 1) < 0) return kNotEven;
  WaitFor(exporter);
  return result == CUDA_SUCCESS ? byte : 100 + static_cast<int>(result) % 100;
}

bool SendDescriptor(int socket, int descriptor) {
  char byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, 0) == 1;
}

int ReceiveDescriptor(int socket) {
  char byte = 0;
  iovec part = {&byte, 1};
  int descriptor = -1;
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof descriptor)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  if (recvmsg(socket, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == nullptr) return -1;
  std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
  return descriptor;
}

CUdeviceptr MapWhole(CUmemGenericAllocationHandle handle) {
  CUdeviceptr pointer = 0;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CU(cuMemAddressReserve, &pointer, kChunk, 0, 0, 0U);
  CU(cuMemMap, pointer, kChunk, 0, handle, 0U);
  CU(cuMemSetAccess, pointer, kChunk, &access, 1);
  return pointer;
}

void ExportVirtual(int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!Open()) _exit(1);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  CU(cuMemCreate, &handle, kChunk, &properties, 0U);
  CU(cuMemsetD8, MapWhole(handle), static_cast<unsigned char>(43), kChunk);
  CU(cuCtxSynchronize);
  int descriptor = -1;
  CU(cuMemExportToShareableHandle, &descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
     0U);
  char done = 0;
  if (!SendDescriptor(socket, descriptor)) _exit(1);
  _exit(read(socket, &done, 1) == 1 ? 0 : 1);
}

// As IpcMemory, with a descriptor of virtual memory (43).
int VirtualExport() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return kNotEven;
  const pid_t exporter = fork();
  if (exporter == 0) {
    close(sockets[0]);
    ExportVirtual(sockets[1]);
  }
  close(sockets[1]);
  if (!Open()) return kNotEven;
  const int descriptor = ReceiveDescriptor(sockets[0]);
  CUmemGenericAllocationHandle handle = 0;
  unsigned char byte = 0;
  void* number = reinterpret_cast<void*>(static_cast<size_t>(descriptor));
  CUresult result =
      CU(cuMemImportFromShareableHandle, &handle, number, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result == CUDA_SUCCESS) result = CU(cuMemcpyDtoH, &byte, MapWhole(handle) + 1000, 1);
  const char done = 0;
  if (write(sockets[0], &done, 1) < 0) return kNotEven;
  WaitFor(exporter);
  return result == CUDA_SUCCESS ? byte : 100 + static_cast<int>(result) % 100;
}

void HoldAndDie(int announce) {
  CUdeviceptr pointer = 0;
  if (!Open() || CU(cuMemAlloc, &pointer, size_t{1} << 30) != CUDA_SUCCESS) _exit(1);
  const pid_t grandchild = fork();
  if (grandchild == 0) {
    pause();
    _exit(0);
  }
  if (write(announce, &grandchild, sizeof grandchild) < 0) _exit(1);
  kill(getpid(), SIGKILL);
}

// Whether memory of a process that SIGKILL ended stays while its forked child lives, and goes with
// the child: bit 0 and bit 1.
int ForkHeld() {
  int announced[2];
  if (pipe(announced) != 0) return kNotEven;
  const pid_t parent = fork();
  if (parent == 0) HoldAndDie(announced[1]);
  pid_t grandchild = 0;
  if (read(announced[0], &grandchild, sizeof grandchild) != sizeof grandchild) return kNotEven;
  WaitFor(parent);
  CallNvml("nvmlInit_v2");
  usleep(500000);
  const long long held = NvmlUsed();
  kill(grandchild, SIGKILL);
  long long after = NvmlUsed();
  for (int i = 0; i < 50 && held - after < (1LL << 30); ++i) {
    usleep(100000);
    after = NvmlUsed();
  }
  return (held >= (1LL << 30) ? 1 : 0) + (held - after >= (1LL << 30) ? 2 : 0);
}

int ExitHolding() {
  CUdeviceptr pointer = 0;
  if (!Open() || CU(cuMemAlloc, &pointer, size_t{1} << 30) != CUDA_SUCCESS) return kNotEven;
  return 0;
}

}  // namespace

int Helper(std::string_view name) {
  if (name == "fork-child") return ForkChild();
  if (name == "ipc-memory") return IpcMemory();
  if (name == "virtual-export") return VirtualExport();
  if (name == "fork-held") return ForkHeld();
  if (name == "exit-holding") return ExitHolding();
  return kNotEven;
}

}  // namespace krux::sim::conformance
