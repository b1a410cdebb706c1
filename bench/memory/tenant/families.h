// The ways in which CUDA takes memory of the card, each as "take so many bytes and keep them".
// Used by the commands of main.cc. Needs a current context. Thread rule: one thread.
#ifndef KRUX_BENCH_MEMORY_TENANT_FAMILIES_H_
#define KRUX_BENCH_MEMORY_TENANT_FAMILIES_H_

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

namespace krux::bench {

struct Family {
  const char* name;
  // Sizes to fill with, from large to the family's own unit; all multiples of what the card takes.
  std::vector<uint64_t> sizes;
  CUresult (*take)(uint64_t bytes);
};

const std::vector<Family>& Families();
const Family* FindFamily(const std::string& name);

// A kernel with `bytes` of local memory a thread, launched once. What it makes the card take is
// (bytes - 1 KiB) for each thread that the card can hold.
CUresult LaunchWithLocalMemory(uint64_t bytes);

}  // namespace krux::bench

#endif  // KRUX_BENCH_MEMORY_TENANT_FAMILIES_H_
