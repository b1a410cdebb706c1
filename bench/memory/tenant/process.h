// What the commands of the tenant share: contexts, time, NVML, and children that wait for a word.
// Thread rule: one thread.
#ifndef KRUX_BENCH_MEMORY_TENANT_PROCESS_H_
#define KRUX_BENCH_MEMORY_TENANT_PROCESS_H_

#include <cuda.h>
#include <sys/types.h>

#include <cstdint>
#include <set>
#include <vector>

namespace krux::bench {

uint64_t NowNanos();
uint64_t Median(std::vector<uint64_t> values);

// cuInit and the primary context of the first device, made current.
CUresult MakeContext();

// NVML as this process finds it: under a limiter the limiter's figures.
class NvmlView {
 public:
  NvmlView();
  bool valid() const { return device_ != nullptr; }
  uint64_t UsedBytes() const;
  std::set<pid_t> Processes() const;

 private:
  void* library_ = nullptr;
  void* device_ = nullptr;
};

// One byte for everybody: children wait for it, the parent gives it.
class Gate {
 public:
  Gate();
  void Wait() const;  // in a child
  void Open();        // in the parent
  void CloseInChild() const;

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace krux::bench

#endif  // KRUX_BENCH_MEMORY_TENANT_PROCESS_H_
