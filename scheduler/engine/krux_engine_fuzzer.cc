// Any bytes as the structs of the C interface: no undefined behaviour, and a plan that is given is
// within the node.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "scheduler/engine/krux_engine.h"

namespace {

template <typename T>
size_t Fill(T* items, size_t most, const uint8_t** data, size_t* size) {
  size_t count = 0;
  while (count < most && *size >= sizeof(T)) {
    std::memcpy(&items[count++], *data, sizeof(T));
    *data += sizeof(T);
    *size -= sizeof(T);
  }
  return count;
}

void Check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t most_gpus = data[0] % (KRUX_MAX_GPUS + 1);
  const size_t most_containers = data[1] % (KRUX_MAX_CONTAINERS + 1);
  data += 2;
  size -= 2;
  std::array<krux_gpu, KRUX_MAX_GPUS> gpus;
  std::array<krux_container, KRUX_MAX_CONTAINERS> containers;
  std::array<krux_placement, KRUX_MAX_CONTAINERS> placements;
  std::array<krux_share, KRUX_MAX_GPUS> shares;
  const size_t gpu_count = Fill(gpus.data(), most_gpus, &data, &size);
  const size_t container_count = Fill(containers.data(), most_containers, &data, &size);
  krux_verdict verdict;
  krux_node node{};
  krux_pod pod{};
  Fill(&node, 1, &data, &size);
  Fill(&pod, 1, &data, &size);
  const int code = krux_plan(nullptr, &node, gpus.data(), gpu_count, &pod, containers.data(),
                             container_count, placements.data(), &verdict);
  char sentence[KRUX_MAX_SENTENCE];
  krux_reason(&verdict, sentence, sizeof sentence);
  Check(std::strlen(sentence) < sizeof sentence);
  if (code == KRUX_FITS) {
    Check(krux_peak(containers.data(), placements.data(), container_count, shares.data(),
                    gpu_count) == KRUX_FITS);
    for (size_t i = 0; i < gpu_count; ++i) {
      if (shares[i].slots == 0) continue;
      Check(gpus[i].used_memory_mib + shares[i].memory_mib <= gpus[i].memory_mib);
      Check(gpus[i].used_cores + shares[i].cores <= 100);
      Check(gpus[i].used_slots + shares[i].slots <= gpus[i].slots);
    }
  }
  std::memset(placements.data(), 0, sizeof placements);
  Fill(placements.data(), container_count, &data, &size);
  (void)krux_peak(containers.data(), placements.data(), container_count, shares.data(), gpu_count);
  krux_asked asked{};
  krux_container container;
  Fill(&asked, 1, &data, &size);
  if (krux_validate(&asked, &container, sentence, sizeof sentence) == KRUX_INVALID) {
    Check(sentence[0] != '\0');
  }
  return 0;
}
