// NVML as seen inside a container: the memory of the limit, the container's own use and its own
// processes with their own pids. Everything else is the card's and passes.
#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "limiter/driver/loader.h"
#include "limiter/entry/nvml_hooks.h"
#include "limiter/life/log.h"
#include "limiter/life/process.h"

#define KRUX_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace krux::limiter;

constexpr unsigned kNoInstance = 0xFFFFFFFF;

void* RealNvml(const char* name) {
  static std::atomic<void*> library;
  void* handle = library.load(std::memory_order_acquire);
  if (handle == nullptr) {
    handle = RealDlopen()("libnvidia-ml.so.1", RTLD_LAZY);
    library.store(handle, std::memory_order_release);
  }
  return handle == nullptr ? nullptr : RealDlsym()(handle, name);
}

// "GPU-" and 32 hex digits in groups.
bool ParseUuid(const char* text, uint8_t bytes[16]) {
  if (strncmp(text, "GPU-", 4) != 0) return false;
  unsigned digits = 0;
  for (const char* c = text + 4; *c != '\0' && digits < 32; ++c) {
    if (*c == '-') continue;
    const int value = *c >= '0' && *c <= '9'   ? *c - '0'
                      : *c >= 'a' && *c <= 'f' ? *c - 'a' + 10
                      : *c >= 'A' && *c <= 'F' ? *c - 'A' + 10
                                               : -1;
    if (value < 0) return false;
    bytes[digits / 2] = static_cast<uint8_t>(bytes[digits / 2] << 4 | value);
    ++digits;
  }
  return digits == 32;
}

// The GPU of the pages that an NVML device is, or the reason why there is no answer.
NvmlReturn FindGpu(NvmlDevice device, uint32_t* gpu) {
  if (Problem problem = OpenPages()) {
    LogLine("no GPU memory figures in this process: %s", problem.text);
    return kNvmlNoPermission;
  }
  using GetUuid = NvmlReturn (*)(NvmlDevice, char*, unsigned);
  const auto get_uuid = reinterpret_cast<GetUuid>(RealNvml("nvmlDeviceGetUUID"));
  if (get_uuid == nullptr) return kNvmlFunctionNotFound;
  char text[96] = {};
  const NvmlReturn result = get_uuid(device, text, sizeof text);
  if (result != kNvmlSuccess) return result;
  uint8_t uuid[16] = {};
  if (!ParseUuid(text, uuid)) return kNvmlNoPermission;
  const krux::LimitsPage& limits = *Self().limits;
  for (*gpu = 0; *gpu < limits.gpu_count; ++*gpu) {
    if (memcmp(limits.gpus[*gpu].uuid, uuid, sizeof uuid) == 0) return kNvmlSuccess;
  }
  return kNvmlNoPermission;
}

struct Memory {
  uint64_t total, free, used;
};

Memory MemoryOf(uint32_t gpu) {
  const Account& account = Self().account;
  const uint64_t total = account.Limit(gpu);
  const uint64_t used = std::min(account.Used(gpu), total);
  return {total, total - used, used};
}

unsigned UsedPercent(uint32_t gpu) {
  const uint32_t percent = Self().limits->gpus[gpu].used_percent.load(std::memory_order_relaxed);
  return std::min<unsigned>(percent, 100);
}

// Calls visit(pid, bytes) for each process of the container that has charged something.
template <typename Visit>
void ForEachProcess(uint32_t gpu, Visit visit) {
  const krux::AccountPage* page = Self().account.page();
  for (const krux::ProcessSlot& slot : page->processes) {
    const uint64_t bytes = slot.gpus[gpu].charged_bytes.load(std::memory_order_relaxed);
    const int32_t pid = slot.pid.load(std::memory_order_relaxed);
    if (slot.in_use.load(std::memory_order_relaxed) == krux::kSlotInUse && bytes != 0 && pid > 0) {
      visit(static_cast<unsigned>(pid), bytes);
    }
  }
}

void Fill(NvmlProcessV1& info, unsigned pid, uint64_t bytes) { info = {pid, bytes}; }
void Fill(NvmlProcessV2& info, unsigned pid, uint64_t bytes) {
  info = {pid, bytes, kNoInstance, kNoInstance};
}

// As NVML: *count is the room on entry and the number on return.
template <typename Info>
NvmlReturn ListProcesses(NvmlDevice device, unsigned* count, Info* infos) {
  if (count == nullptr || (infos == nullptr && *count != 0)) return kNvmlInvalidArgument;
  uint32_t gpu = 0;
  if (const NvmlReturn result = FindGpu(device, &gpu); result != kNvmlSuccess) return result;
  const unsigned room = *count;
  unsigned found = 0;
  ForEachProcess(gpu, [&](unsigned pid, uint64_t bytes) {
    if (found < room) Fill(infos[found], pid, bytes);
    ++found;
  });
  *count = found;
  return found > room ? kNvmlInsufficientSize : kNvmlSuccess;
}

// Containers get no graphics contexts and no MPS server.
template <typename Info>
NvmlReturn ListNone(NvmlDevice device, unsigned* count, Info*) {
  uint32_t gpu = 0;
  if (count == nullptr) return kNvmlInvalidArgument;
  if (const NvmlReturn result = FindGpu(device, &gpu); result != kNvmlSuccess) return result;
  *count = 0;
  return kNvmlSuccess;
}

}  // namespace

KRUX_EXPORT NvmlReturn nvmlDeviceGetMemoryInfo(NvmlDevice device, NvmlMemory* memory) {
  if (memory == nullptr) return kNvmlInvalidArgument;
  uint32_t gpu = 0;
  if (const NvmlReturn result = FindGpu(device, &gpu); result != kNvmlSuccess) return result;
  const Memory figures = MemoryOf(gpu);
  *memory = {figures.total, figures.free, figures.used};
  return kNvmlSuccess;
}

KRUX_EXPORT NvmlReturn nvmlDeviceGetMemoryInfo_v2(NvmlDevice device, NvmlMemoryV2* memory) {
  if (memory == nullptr) return kNvmlInvalidArgument;
  if (memory->version != NvmlMemoryV2::kVersion) return kNvmlVersionMismatch;
  uint32_t gpu = 0;
  if (const NvmlReturn result = FindGpu(device, &gpu); result != kNvmlSuccess) return result;
  const Memory figures = MemoryOf(gpu);
  *memory = {NvmlMemoryV2::kVersion, figures.total, 0, figures.free, figures.used};
  return kNvmlSuccess;
}

#define KRUX_PROCESS_LIST(name, info, function)                                  \
  KRUX_EXPORT NvmlReturn name(NvmlDevice device, unsigned* count, info* infos) { \
    return function(device, count, infos);                                       \
  }
KRUX_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, NvmlProcessV1, ListProcesses)
KRUX_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, NvmlProcessV2, ListProcesses)
KRUX_PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, NvmlProcessV2, ListProcesses)
KRUX_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, NvmlProcessV1, ListNone)
KRUX_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, NvmlProcessV2, ListNone)
KRUX_PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, NvmlProcessV2, ListNone)
KRUX_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, NvmlProcessV1, ListNone)
KRUX_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, NvmlProcessV2, ListNone)
KRUX_PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, NvmlProcessV2, ListNone)
#undef KRUX_PROCESS_LIST

// Of the container alone: its GPU time in the last second, as the agent measured it.
KRUX_EXPORT NvmlReturn nvmlDeviceGetUtilizationRates(NvmlDevice device, NvmlUtilization* rates) {
  if (rates == nullptr) return kNvmlInvalidArgument;
  uint32_t gpu = 0;
  if (const NvmlReturn result = FindGpu(device, &gpu); result != kNvmlSuccess) return result;
  *rates = {UsedPercent(gpu), 0};
  return kNvmlSuccess;
}

KRUX_EXPORT NvmlReturn nvmlDeviceGetProcessUtilization(NvmlDevice device,
                                                       NvmlProcessSample* samples, unsigned* count,
                                                       unsigned long long) {
  if (count == nullptr) return kNvmlInvalidArgument;
  uint32_t gpu = 0;
  if (const NvmlReturn result = FindGpu(device, &gpu); result != kNvmlSuccess) return result;
  // Use is measured per container: it stands with the first of its processes.
  const unsigned percent = UsedPercent(gpu);
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const auto time_stamp = static_cast<unsigned long long>(now.tv_sec) * 1000000 +
                          static_cast<unsigned long long>(now.tv_nsec) / 1000;
  const unsigned room = samples == nullptr ? 0 : *count;
  unsigned found = 0;
  ForEachProcess(gpu, [&](unsigned pid, uint64_t) {
    if (found < room) samples[found] = {pid, time_stamp, found == 0 ? percent : 0, 0, 0, 0};
    ++found;
  });
  *count = found;
  if (found == 0) return kNvmlNotFound;
  return found > room ? kNvmlInsufficientSize : kNvmlSuccess;
}

// Newer forms of the same questions, records of other containers' processes, and what all
// containers of the card use together.
#define KRUX_NOT_SHOWN(name, ...) \
  KRUX_EXPORT NvmlReturn name(__VA_ARGS__) { return kNvmlNotSupported; }
KRUX_NOT_SHOWN(nvmlDeviceGetProcessesUtilizationInfo, NvmlDevice, void*)
KRUX_NOT_SHOWN(nvmlDeviceGetRunningProcessDetailList, NvmlDevice, void*)
KRUX_NOT_SHOWN(nvmlDeviceGetAccountingPids, NvmlDevice, unsigned*, unsigned*)
KRUX_NOT_SHOWN(nvmlDeviceGetAccountingStats, NvmlDevice, unsigned, void*)
KRUX_NOT_SHOWN(nvmlDeviceGetSamples, NvmlDevice, int, unsigned long long, int*, unsigned*, void*)
KRUX_NOT_SHOWN(nvmlDeviceGetEncoderUtilization, NvmlDevice, unsigned*, unsigned*)
KRUX_NOT_SHOWN(nvmlDeviceGetDecoderUtilization, NvmlDevice, unsigned*, unsigned*)
KRUX_NOT_SHOWN(nvmlDeviceGetJpgUtilization, NvmlDevice, unsigned*, unsigned*)
KRUX_NOT_SHOWN(nvmlDeviceGetOfaUtilization, NvmlDevice, unsigned*, unsigned*)
KRUX_NOT_SHOWN(nvmlDeviceGetEncoderStats, NvmlDevice, unsigned*, unsigned*, unsigned*)
KRUX_NOT_SHOWN(nvmlDeviceGetFBCStats, NvmlDevice, void*)
KRUX_NOT_SHOWN(nvmlDeviceGetEncoderSessions, NvmlDevice, unsigned*, void*)
KRUX_NOT_SHOWN(nvmlDeviceGetFBCSessions, NvmlDevice, unsigned*, void*)
KRUX_NOT_SHOWN(nvmlDeviceGetDynamicPstatesInfo, NvmlDevice, void*)
KRUX_NOT_SHOWN(nvmlGpmSampleGet, NvmlDevice, void*)
KRUX_NOT_SHOWN(nvmlGpmMigSampleGet, NvmlDevice, unsigned, void*)
KRUX_NOT_SHOWN(nvmlDeviceGetConfComputeProtectedMemoryUsage, NvmlDevice, NvmlMemory*)
#undef KRUX_NOT_SHOWN

namespace krux::limiter {

void* FindNvmlHook(const char* name) {
  struct Row {
    const char* name;
    void* ours;
  };
  static const Row kRows[] = {
#define KRUX_NVML_HOOK(symbol) {#symbol, reinterpret_cast<void*>(&::symbol)},
#include "limiter/nvml_api.inc"
#undef KRUX_NVML_HOOK
  };
  for (const Row& row : kRows) {
    if (strcmp(row.name, name) == 0) return row.ours;
  }
  return nullptr;
}

}  // namespace krux::limiter
