#include "bench/memory/tenant/pairs.h"

#include <cuda.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "bench/memory/tenant/process.h"
#include "limiter/driver/elf_lookup.h"

namespace krux::bench {
namespace {

struct Door {
  decltype(&cuMemAlloc) alloc;
  decltype(&cuMemFree) free;
  decltype(&cuMemAllocAsync) alloc_async;
  decltype(&cuMemFreeAsync) free_async;
  decltype(&cuMemGetInfo) info;
};

// As the loader linked this program: a preloaded library comes first.
Door OwnDoor() { return {cuMemAlloc, cuMemFree, cuMemAllocAsync, cuMemFreeAsync, cuMemGetInfo}; }

template <typename Function>
bool Find(const char* name, Function* function) {
  *function = reinterpret_cast<Function>(limiter::FindInObject("libcuda.so", name));
  return *function != nullptr;
}

// Read out of the tables of the loaded driver itself, without the loader: no library stands
// between.
bool FindDriversDoor(Door* door) {
  return Find("cuMemAlloc_v2", &door->alloc) && Find("cuMemFree_v2", &door->free) &&
         Find("cuMemAllocAsync", &door->alloc_async) && Find("cuMemFreeAsync", &door->free_async) &&
         Find("cuMemGetInfo_v2", &door->info);
}

struct Work {
  std::string kind;
  size_t bytes = 0;
  int blocks = 0, count = 0;
};

CUresult CallOnce(const Door& door, const Work& work) {
  CUdeviceptr address = 0;
  if (work.kind == "alloc") {
    const CUresult result = door.alloc(&address, work.bytes);
    return result == CUDA_SUCCESS ? door.free(address) : result;
  }
  if (work.kind == "async") {
    const CUresult result = door.alloc_async(&address, work.bytes, nullptr);
    return result == CUDA_SUCCESS ? door.free_async(address, nullptr) : result;
  }
  size_t free_bytes = 0, total_bytes = 0;
  return door.info(&free_bytes, &total_bytes);
}

// The median of a block; 0 when a call failed.
uint64_t TimeBlock(const Door& door, const Work& work) {
  std::vector<uint64_t> times;
  for (int i = 0; i < work.count; ++i) {
    const uint64_t start = NowNanos();
    if (CallOnce(door, work) != CUDA_SUCCESS) return 0;
    times.push_back(NowNanos() - start);
  }
  cuCtxSynchronize();
  return Median(std::move(times));
}

void Print(const char* name, const std::vector<uint64_t>& times) {
  std::cout << '"' << name << "\":[";
  for (size_t i = 0; i < times.size(); ++i) std::cout << (i > 0 ? "," : "") << times[i];
  std::cout << ']';
}

}  // namespace

int TimePairs() {
  Door drivers{};
  const Door own = OwnDoor();
  if (!FindDriversDoor(&drivers)) {
    std::cerr << "the loaded libcuda.so lacks a function that is to be timed\n";
    return 1;
  }
  const CUresult made = MakeContext();
  std::cout << "{\"context\":" << static_cast<int>(made) << "}" << std::endl;
  // Pools keep what they have, as frameworks set them.
  CUmemoryPool pool = nullptr;
  cuuint64_t keep = UINT64_MAX;
  if (cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS) {
    cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    Work work;
    words >> work.kind >> work.bytes >> work.blocks >> work.count;
    TimeBlock(own, work);  // warm
    TimeBlock(drivers, work);
    std::vector<uint64_t> own_times, driver_times;
    for (int block = 0; block < work.blocks; ++block) {
      // Who is first changes, so that neither gains by it.
      if (block % 2 == 0) own_times.push_back(TimeBlock(own, work));
      driver_times.push_back(TimeBlock(drivers, work));
      if (block % 2 != 0) own_times.push_back(TimeBlock(own, work));
    }
    std::cout << '{';
    Print("own", own_times);
    std::cout << ',';
    Print("driver", driver_times);
    std::cout << '}' << std::endl;
  }
  return 0;
}

}  // namespace krux::bench
