// A program that takes GPU memory in every way there is, for bench/memory/run. It knows nothing of
// Krux: the same program runs with a limit and without one. Answers are JSON, one line each.
//
//   fill FAMILY PROCESSES   so many processes make a context, wait for a line on standard input,
//                           take memory until there is none, and keep it until the next line
//   local PROCESSES         the same with kernels of growing local memory
//   pairs                   what calls cost, for each line on standard input (tenant/pairs.h)
//   context COUNT           so many fresh processes, one after the other: median time of a context
//   starts PROCESSES        so many at once: seconds until the last one has a context
//   kills COUNT PARALLEL LONGEST_MS   processes that allocate at random are killed at random times
#include <cuda.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "bench/memory/tenant/families.h"
#include "bench/memory/tenant/kills.h"
#include "bench/memory/tenant/pairs.h"
#include "bench/memory/tenant/process.h"

namespace krux::bench {
namespace {

constexpr int kTriesPerSize = 3;  // of a refused size: a racing process may have given room back

struct Filled {
  uint64_t bytes = 0;
  int error = 0;  // what ended it, when that was not out of memory
};

Filled Fill(const Family& family) {
  Filled filled;
  for (const uint64_t size : family.sizes) {
    for (int refused = 0; refused < kTriesPerSize;) {
      const CUresult result = family.take(size);
      if (result == CUDA_SUCCESS) {
        filled.bytes += size;
        continue;
      }
      ++refused;
      if (result != CUDA_ERROR_OUT_OF_MEMORY) filled.error = static_cast<int>(result);
    }
  }
  return filled;
}

// By half a KiB a thread, up to 64 KiB.
Filled FillLocal() {
  int processors = 0, threads = 0;
  cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
  cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 0);
  Filled filled;
  for (uint64_t bytes = 1536; bytes <= 65536; bytes += 512) {
    const CUresult result = LaunchWithLocalMemory(bytes);
    if (result != CUDA_SUCCESS) {
      if (result != CUDA_ERROR_OUT_OF_MEMORY) filled.error = static_cast<int>(result);
      break;
    }
    filled.bytes = (bytes - 1024) * static_cast<uint64_t>(processors * threads);
  }
  return filled;
}

struct Shared {
  std::atomic<int> ready{0}, done{0};
  Filled filled[64];
};

template <typename Work>
int FillInProcesses(int processes, Work work) {
  auto* shared =
      new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Shared;
  Gate begin, end;
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      begin.CloseInChild();
      end.CloseInChild();
      const CUresult made = MakeContext();
      shared->filled[i].error = static_cast<int>(made);
      ++shared->ready;
      begin.Wait();
      if (made == CUDA_SUCCESS) shared->filled[i] = work();
      ++shared->done;
      end.Wait();
      _exit(0);
    }
    children.push_back(child);
  }
  const auto wait_for_all = [&](const std::atomic<int>& count) {
    while (count.load() < processes && waitpid(-1, nullptr, WNOHANG) <= 0) usleep(1000);
  };
  std::string line;
  wait_for_all(shared->ready);
  std::cout << "{\"ready\":" << shared->ready << "}" << std::endl;
  std::getline(std::cin, line);
  begin.Open();
  wait_for_all(shared->done);
  std::cout << "{\"done\":" << shared->done << ",\"processes\":[";
  for (int i = 0; i < processes; ++i) {
    const Filled& filled = shared->filled[i];
    std::cout << (i > 0 ? "," : "") << "{\"pid\":" << children[static_cast<size_t>(i)]
              << ",\"bytes\":" << filled.bytes << ",\"error\":" << filled.error << "}";
  }
  std::cout << "]}" << std::endl;
  std::getline(std::cin, line);
  end.Open();
  while (wait(nullptr) > 0) {
  }
  return 0;
}

uint64_t TimeContext() {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    uint64_t time = 0;
    CUdevice device = 0;
    CUcontext context = nullptr;
    if (cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS) {
      const uint64_t start = NowNanos();
      if (cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS) time = NowNanos() - start;
    }
    if (write(ends[1], &time, sizeof time) < 0) _exit(1);
    _exit(0);
  }
  uint64_t time = 0;
  if (read(ends[0], &time, sizeof time) != sizeof time) time = 0;
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  return time;
}

int Contexts(int count) {
  std::vector<uint64_t> times;
  for (int i = 0; i < count; ++i) times.push_back(TimeContext());
  std::cout << "{\"ns\":" << Median(times) << "}" << std::endl;
  return 0;
}

int Starts(int processes) {
  auto* shared =
      new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Shared;
  std::atomic<int>& failed = shared->done;
  Gate begin, end;
  for (int i = 0; i < processes; ++i) {
    if (fork() != 0) continue;
    begin.CloseInChild();
    end.CloseInChild();
    begin.Wait();
    if (MakeContext() != CUDA_SUCCESS) ++failed;
    ++shared->ready;
    end.Wait();
    _exit(0);
  }
  usleep(200000);  // until all wait
  const uint64_t start = NowNanos();
  begin.Open();
  while (shared->ready < processes && waitpid(-1, nullptr, WNOHANG) <= 0) usleep(500);
  const double seconds = static_cast<double>(NowNanos() - start) / 1e9;
  end.Open();
  while (wait(nullptr) > 0) {
  }
  std::cout << "{\"seconds\":" << seconds << ",\"failed\":" << failed << "}" << std::endl;
  return 0;
}

int Run(const std::vector<std::string>& words) {
  const auto number = [&](size_t i) { return i < words.size() ? atoi(words[i].c_str()) : 1; };
  const std::string command = words.empty() ? "" : words[0];
  const Family* family = words.size() > 1 ? FindFamily(words[1]) : nullptr;
  if (command == "fill" && family != nullptr) {
    return FillInProcesses(std::clamp(number(2), 1, 64), [&] { return Fill(*family); });
  }
  if (command == "local") return FillInProcesses(std::clamp(number(1), 1, 64), FillLocal);
  if (command == "pairs") return TimePairs();
  if (command == "context") return Contexts(number(1));
  if (command == "starts") return Starts(std::clamp(number(1), 1, 256));
  if (command == "kills") return KillAtRandom(number(1), std::clamp(number(2), 1, 64), number(3));
  std::cerr << "unknown command\n";
  return 2;
}

}  // namespace
}  // namespace krux::bench

int main(int argc, char** argv) { return krux::bench::Run({argv + 1, argv + argc}); }
