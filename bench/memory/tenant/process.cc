#include "bench/memory/tenant/process.h"

#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace krux::bench {

uint64_t NowNanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t Median(std::vector<uint64_t> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

CUresult MakeContext() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUresult result = cuInit(0);
  if (result == CUDA_SUCCESS) result = cuDeviceGet(&device, 0);
  if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, device);
  return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}

NvmlView::NvmlView() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
  if (library_ == nullptr) return;
  using Init = int (*)();
  using ByIndex = int (*)(unsigned, void**);
  reinterpret_cast<Init>(dlsym(library_, "nvmlInit_v2"))();
  reinterpret_cast<ByIndex>(dlsym(library_, "nvmlDeviceGetHandleByIndex_v2"))(0, &device_);
}

uint64_t NvmlView::UsedBytes() const {
  struct {
    unsigned long long total, free, used;
  } memory{};
  using MemoryInfo = int (*)(void*, void*);
  reinterpret_cast<MemoryInfo>(dlsym(library_, "nvmlDeviceGetMemoryInfo"))(device_, &memory);
  return memory.used;
}

std::set<pid_t> NvmlView::Processes() const {
  struct Info {
    unsigned pid;
    unsigned long long used;
    unsigned instances[2];
  } infos[256] = {};
  unsigned count = 256;
  using List = int (*)(void*, unsigned*, void*);
  static const auto list =
      reinterpret_cast<List>(dlsym(library_, "nvmlDeviceGetComputeRunningProcesses_v3"));
  if (list(device_, &count, infos) != 0) return {};
  std::set<pid_t> pids;
  for (unsigned i = 0; i < count; ++i) pids.insert(static_cast<pid_t>(infos[i].pid));
  return pids;
}

Gate::Gate() {
  if (pipe(ends_) != 0) _exit(3);
}

void Gate::CloseInChild() const { close(ends_[1]); }

// Reads until the end of the pipe: it comes when the parent closes it, for everybody at once.
void Gate::Wait() const {
  char byte = 0;
  while (read(ends_[0], &byte, 1) > 0) {
  }
}

void Gate::Open() { close(ends_[1]); }

}  // namespace krux::bench
