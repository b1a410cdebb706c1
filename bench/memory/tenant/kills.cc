#include "bench/memory/tenant/kills.h"

#include <cuda.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <vector>

#include "bench/memory/tenant/process.h"

namespace krux::bench {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr uint64_t kMilli = 1000000;

[[noreturn]] void AllocateForEver(unsigned seed) {
  std::minstd_rand random(seed);
  if (MakeContext() != CUDA_SUCCESS) _exit(1);
  std::vector<CUdeviceptr> held;
  for (;;) {
    CUdeviceptr address = 0;
    if (held.size() > 6 || (random() % 2 == 0 && !held.empty())) {
      cuMemFree(held.back());
      held.pop_back();
    } else if (cuMemAlloc(&address, (1 + random() % 32) * kMiB) == CUDA_SUCCESS) {
      held.push_back(address);
    }
  }
}

struct Peer {
  std::atomic<int> ready{0}, stop{0};
  std::atomic<uint64_t> longest_ns{0}, refusals{0};
};

// A refusal asks the account and not the driver, so its time is that of the account alone.
[[noreturn]] void BeRefused(Peer* peer) {
  if (MakeContext() != CUDA_SUCCESS) peer->stop = 2;
  peer->ready = 1;
  while (peer->stop == 0) {
    CUdeviceptr address = 0;
    const uint64_t start = NowNanos();
    const CUresult result = cuMemAlloc(&address, size_t{1} << 50);
    const uint64_t time = NowNanos() - start;
    if (result != CUDA_ERROR_OUT_OF_MEMORY) _exit(1);
    if (time > peer->longest_ns) peer->longest_ns = time;
    ++peer->refusals;
    if (cuMemAlloc(&address, 2 * kMiB) == CUDA_SUCCESS) cuMemFree(address);
  }
  _exit(0);
}

class Kills {
 public:
  Kills(int count, int parallel, int longest_ms)
      : left_(count),
        parallel_(parallel),
        longest_ns_(static_cast<uint64_t>(longest_ms) * kMilli) {}

  void Run() {
    while (left_ > 0 || !alive_.empty() || !dead_.empty()) {
      while (left_ > 0 && alive_.size() < static_cast<size_t>(parallel_)) StartOne();
      KillThoseDue();
      LookAtTheDead();
      usleep(200);
    }
  }
  const std::vector<uint64_t>& times() const { return times_; }
  uint64_t UsedBytes() const { return nvml_.UsedBytes(); }

 private:
  void StartOne() {
    const auto seed = static_cast<unsigned>(random_());
    const uint64_t due = NowNanos() + random_() % longest_ns_;
    const pid_t child = fork();
    if (child == 0) AllocateForEver(seed);
    alive_[child] = due;
    --left_;
  }
  void KillThoseDue() {
    const uint64_t now = NowNanos();
    for (auto it = alive_.begin(); it != alive_.end();) {
      if (now >= it->second && !killed_.contains(it->first)) {
        kill(it->first, SIGKILL);
        killed_.insert(it->first);
      }
      // The kernel lets go of everything before it reports the end.
      if (waitpid(it->first, nullptr, WNOHANG) == it->first) {
        dead_[it->first] = NowNanos();
        it = alive_.erase(it);
      } else {
        ++it;
      }
    }
  }
  void LookAtTheDead() {
    if (dead_.empty()) return;
    const uint64_t now = NowNanos();
    const std::set<pid_t> listed = nvml_.Processes();
    for (auto it = dead_.begin(); it != dead_.end();) {
      if (listed.contains(it->first)) {
        ++it;
        continue;
      }
      times_.push_back(now > it->second ? now - it->second : 0);
      it = dead_.erase(it);
    }
  }

  NvmlView nvml_;
  std::mt19937_64 random_{20261130};
  int left_, parallel_;
  uint64_t longest_ns_;
  std::map<pid_t, uint64_t> alive_;  // when it is due
  std::set<pid_t> killed_;
  std::map<pid_t, uint64_t> dead_;  // since when
  std::vector<uint64_t> times_;
};

}  // namespace

int KillAtRandom(int count, int parallel, int longest_ms) {
  auto* peer =
      new (mmap(nullptr, sizeof(Peer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Peer;
  const pid_t neighbour = fork();
  if (neighbour == 0) BeRefused(peer);
  while (peer->ready == 0 && waitpid(neighbour, nullptr, WNOHANG) == 0) usleep(1000);
  Kills kills(count, parallel, std::max(longest_ms, 1));
  kills.Run();
  peer->stop = 1;
  int status = 0;
  waitpid(neighbour, &status, 0);
  const uint64_t end = NowNanos() + 2000 * kMilli;
  while (kills.UsedBytes() != 0 && NowNanos() < end) usleep(1000);
  std::vector<uint64_t> times = kills.times();
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return times.empty()
               ? 0.0
               : static_cast<double>(
                     times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))]) /
                     1e6;
  };
  std::cout << "{\"kills\":" << times.size() << ",\"median_ms\":" << at(0.5)
            << ",\"p99_ms\":" << at(0.99) << ",\"worst_ms\":" << at(1.0)
            << ",\"neighbour_worst_ms\":" << static_cast<double>(peer->longest_ns) / 1e6
            << ",\"neighbour_refusals\":" << peer->refusals << ",\"neighbour_status\":" << status
            << ",\"left_bytes\":" << kills.UsedBytes() << "}" << std::endl;
  return 0;
}

}  // namespace krux::bench
