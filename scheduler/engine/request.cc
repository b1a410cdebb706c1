#include "scheduler/engine/request.h"

#include <cinttypes>
#include <cstdio>

namespace krux::engine {
namespace {

constexpr int64_t kBytesPerMib = 1024 * 1024;

// Each check writes its sentence and returns false when it refuses.
bool CheckGpu(const krux_asked& asked, char* sentence, size_t size) {
  if (asked.has_gpu == 0) return true;
  if (asked.gpu == 0) {
    const bool others = asked.has_memory != 0 || asked.has_percent != 0 || asked.has_cores != 0;
    if (!others) return true;
    std::snprintf(sentence, size,
                  "krux.io/gpu is 0, but other krux.io resources are asked: write krux.io/gpu: 1, "
                  "or leave all of them out");
    return false;
  }
  if (asked.gpu >= 1 && asked.gpu <= KRUX_MAX_GPUS_PER_CONTAINER) return true;
  std::snprintf(sentence, size, "krux.io/gpu is %" PRId64 ": a container can have 1 to %d GPUs",
                asked.gpu, KRUX_MAX_GPUS_PER_CONTAINER);
  return false;
}

bool CheckMemory(const krux_asked& asked, char* sentence, size_t size) {
  if (asked.has_memory == 0) return true;
  if (asked.has_percent != 0) {
    std::snprintf(sentence, size,
                  "krux.io/gpumem (%" PRId64 " MiB) and krux.io/gpumem-percentage (%" PRId64
                  ") are both given: keep one of them",
                  asked.memory_mib, asked.memory_percent);
    return false;
  }
  if (asked.memory_mib < 1) {
    std::snprintf(sentence, size,
                  "krux.io/gpumem is %" PRId64
                  ": write the MiB for each GPU, 1 or more, or leave it out for a whole GPU",
                  asked.memory_mib);
    return false;
  }
  if (static_cast<uint64_t>(asked.memory_mib) <= KRUX_MAX_MEMORY_MIB) return true;
  // 4Gi is 4294967296, and means 4096 here.
  const int64_t meant = asked.memory_mib / kBytesPerMib;
  std::snprintf(sentence, size,
                "krux.io/gpumem counts MiB: %" PRId64
                " MiB is more than any GPU has; write %" PRId64 " if you mean that many MiB",
                asked.memory_mib, meant < 1 ? 1 : meant);
  return false;
}

bool CheckPercents(const krux_asked& asked, char* sentence, size_t size) {
  if (asked.has_percent != 0 && (asked.memory_percent < 1 || asked.memory_percent > 100)) {
    std::snprintf(sentence, size,
                  "krux.io/gpumem-percentage is %" PRId64 ": write 1 to 100 percent of each GPU",
                  asked.memory_percent);
    return false;
  }
  if (asked.has_cores != 0 && (asked.cores < 1 || asked.cores > 100)) {
    std::snprintf(sentence, size,
                  "krux.io/gpucores is %" PRId64
                  ": write 1 to 100 percent of each GPU's time, or leave it out",
                  asked.cores);
    return false;
  }
  return true;
}

}  // namespace

bool Validate(const krux_asked& asked, krux_container* out, char* sentence, size_t size) {
  *out = {};
  if (!CheckGpu(asked, sentence, size) || !CheckMemory(asked, sentence, size) ||
      !CheckPercents(asked, sentence, size)) {
    return false;
  }
  const bool asks_part = asked.has_memory != 0 || asked.has_percent != 0;
  const bool asks_anything = asks_part || asked.has_gpu != 0 || asked.has_cores != 0;
  if (!asks_anything || (asked.has_gpu != 0 && asked.gpu == 0)) return true;
  out->gpus = asked.has_gpu != 0 ? static_cast<uint32_t>(asked.gpu) : 1;
  out->memory_mib = asked.has_memory != 0 ? static_cast<uint64_t>(asked.memory_mib) : 0;
  out->memory_percent = asked.has_percent != 0 ? static_cast<uint32_t>(asked.memory_percent) : 0;
  out->cores = asked.has_cores != 0 ? static_cast<uint32_t>(asked.cores) : 0;
  if (!asks_part && asked.has_cores == 0) out->cores = 100;
  return true;
}

}  // namespace krux::engine
