// A management library for tests: fake_nvml.cc answers NVML's functions from the state that the
// test sets here. Found with dlsym(handle, "fake_nvml_state"). Not thread-safe.
#ifndef KRUX_GPU_FAKE_NVML_H_
#define KRUX_GPU_FAKE_NVML_H_

#include <string>
#include <utility>
#include <vector>

#include "gpu/nvml_abi.h"

namespace krux::gpu {

struct FakeCard {
  std::string uuid = "GPU-00000000-0000-0000-0000-000000000001";
  std::string name = "NVIDIA H200";
  unsigned long long memory_bytes = 143771ULL << 20;
  unsigned minor = 0;
  unsigned mig = 0;
  int numa_node = -1;       // -1: NVML does not say
  std::string linked_with;  // UUID of another card
  unsigned rows_pending = 0;
  unsigned rows_failed = 0;
  abi::Return broken = abi::kSuccess;  // the answer of every call about this card
  std::vector<abi::ProcessInfo> processes;
};

struct FakeNvmlState {
  abi::Return init = abi::kSuccess;
  int open = 0;  // Init calls less Shutdown calls
  std::vector<FakeCard> cards;
  std::vector<std::pair<size_t, unsigned long long>> xids;  // index of the card, number
};

}  // namespace krux::gpu

#endif  // KRUX_GPU_FAKE_NVML_H_
