// Private tables of NVML, as far as the vendor's nvidia-smi 535 asks for them (traced with it): one
// table, whose first word is its size in bytes. Of its entries nvidia-smi calls some whose success
// is all that it needs, and three that list processes, each with its name. Other tables are not
// there.
#include <algorithm>
#include <cstring>

#include "sim/nvml/library.h"

namespace {

constexpr size_t kEntries = 256;
constexpr size_t kComputeProcesses = 212;  // (device, unsigned* count, NamedProcess* list)
constexpr size_t kGraphicsProcesses = 213;
constexpr size_t kMpsProcesses = 214;

struct NamedProcess {
  unsigned int pid;
  unsigned long long used_bytes;
  unsigned int gpu_instance;
  unsigned int compute_instance;
  unsigned long long protected_bytes;
  char name[4096];
};
static_assert(sizeof(NamedProcess) == 4128);

using Entry = nvmlReturn_t (*)(nvmlDevice_t, unsigned int*, NamedProcess*);

struct Table {
  size_t bytes;
  Entry entries[kEntries];
};

nvmlReturn_t Succeed(nvmlDevice_t, unsigned int*, NamedProcess*) { return NVML_SUCCESS; }

nvmlReturn_t ListNone(nvmlDevice_t, unsigned int* count, NamedProcess*) {
  return krux::sim::Give(count, 0U);
}

nvmlReturn_t ListProcesses(nvmlDevice_t device, unsigned int* count, NamedProcess* list) {
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlProcessInfo_t plain[krux::sim::kSeatsPerCard];
  unsigned int found = krux::sim::kSeatsPerCard;
  const nvmlReturn_t result = nvmlDeviceGetComputeRunningProcesses_v3(device, &found, plain);
  if (result != NVML_SUCCESS) return result;
  const bool has_room = *count >= found && (list != nullptr || found == 0);
  *count = found;
  if (!has_room) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned int i = 0; i < found; ++i) {
    NamedProcess& process = list[i];
    process = {};
    process.pid = plain[i].pid;
    process.used_bytes = plain[i].usedGpuMemory;
    process.gpu_instance = plain[i].gpuInstanceId;
    process.compute_instance = plain[i].computeInstanceId;
    nvmlSystemGetProcessName(process.pid, process.name, sizeof process.name);
  }
  return NVML_SUCCESS;
}

const Table& InternalTable() {
  static const Table table = [] {
    Table made{};
    made.bytes = sizeof made;
    std::fill(std::begin(made.entries), std::end(made.entries), Succeed);
    made.entries[kComputeProcesses] = ListProcesses;
    made.entries[kGraphicsProcesses] = ListNone;
    made.entries[kMpsProcesses] = ListNone;
    return made;
  }();
  return table;
}

constexpr unsigned char kInternal[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                         0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

}  // namespace

extern "C" {

nvmlReturn_t nvmlInternalGetExportTable(const void** table, const void* name);
nvmlReturn_t nvmlInternalGetExportTable(const void** table, const void* name) {
  if (table == nullptr || name == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (std::memcmp(name, kInternal, sizeof kInternal) == 0) {
    *table = &InternalTable();
    return NVML_SUCCESS;
  }
  krux::sim::TraceRefused("has no private table", "that was asked for");
  *table = nullptr;
  return NVML_ERROR_NOT_FOUND;
}

}  // extern "C"
