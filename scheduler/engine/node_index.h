// The state of every node in few bytes, and the score of a simple pod on any of them in tens of
// nanoseconds. Simple: at most one container, fragmentation policy for node and GPU, no list of
// UUIDs. The score and the GPUs are the same as the planner's (cluster_test.cc holds them
// together).
//
// Used by Cluster; one thread at a time.
#ifndef KRUX_SCHEDULER_ENGINE_NODE_INDEX_H_
#define KRUX_SCHEDULER_ENGINE_NODE_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "scheduler/engine/forecast.h"
#include "scheduler/engine/krux_engine.h"

namespace krux::engine {

// Scores within the cluster: millionths of a GPU fit.
using Score = int32_t;
constexpr Score kNoScore = std::numeric_limits<Score>::min();

// A simple pod. REQUIRES of FromPod(): IsSimple().
struct SimplePod {
  static bool IsSimple(const krux_pod& pod, const std::vector<krux_container>& containers);
  static SimplePod FromPod(const krux_pod& pod, const std::vector<krux_container>& containers);

  uint64_t cpu_milli = 0;
  uint64_t host_mib = 0;
  uint64_t models = 0;
  uint32_t memory_mib = 0;      // of each GPU, 0: see percent
  uint32_t memory_percent = 0;  // 0 with memory_mib 0: all
  uint32_t cores = 0;
  uint32_t gpus = 0;
  bool exclusive = false;
};

class NodeIndex {
 public:
  // `forecast` must live until the next Adopt().
  void Adopt(const Forecast* forecast);
  // `before` is what Set() was told of the node's GPUs last; only what differs is worked out.
  void Set(uint32_t index, const krux_node& node, const std::vector<krux_gpu>& before,
           const krux_gpu* gpus, size_t gpu_count);

  // kNoScore when it does not fit.
  Score ScoreOf(uint32_t index, const SimplePod& pod) const { return Place(index, pod, nullptr); }
  // The same, and the GPUs.
  Score Place(uint32_t index, const SimplePod& pod, krux_placement* placement) const;

  // Nodes of one fingerprint have the same score for every simple pod.
  uint64_t fingerprint(uint32_t index) const { return nodes_[index].fingerprint; }

 private:
  struct Gpu {
    uint32_t free_mib = 0;
    uint32_t memory_mib = 0;
    uint16_t free_slots = 0;
    uint8_t free_cores = 0;
    uint8_t memory = 0;  // free shares as FreeOf() gives them
    uint8_t cores = 0;
    uint8_t usable = 0;
    uint8_t model = 0;
    bool open = false;  // takes newcomers, nobody holds it alone, not over-committed
    bool empty = false;
    bool operator==(const Gpu&) const = default;
  };
  struct Node {
    uint64_t free_cpu_milli = 0;  // kUnknownCpu: not known
    uint64_t free_host_mib = 0;
    uint64_t models = 0;  // of its open GPUs
    uint64_t fingerprint = 0;
    int64_t gpus_loss = 0;  // the GPUs' parts of it, at this CPU step
    int64_t loss = 0;
    uint32_t cpu_step = 0;
    uint32_t most_free_mib = 0;
    uint16_t usable = 0;
    uint8_t gpu_count = 0;
    uint8_t whole = 0;  // GPUs with nobody on them, as the forecast counts
    uint8_t empty = 0;  // GPUs that may be had alone
    uint8_t most_free_cores = 0;
  };
  // One GPU with the pod on it.
  struct Candidate {
    int64_t cost = 0;   // loss of the node when this GPU alone is taken, but for a constant
    int64_t delta = 0;  // change of the GPU's own loss
    uint32_t need_mib = 0;
    uint8_t gpu = 0;
    uint8_t usable = 0;  // what is left
    bool was_whole = false;
  };
  // A node with the pod's CPU taken, while its GPUs are looked at.
  struct Trial {
    const Node& node;
    const Gpu* gpus;
    uint64_t cpu_milli;
    Forecast::CpuPoint cpu;
  };

  const Gpu* gpus_of(uint32_t index) const { return &gpus_[size_t{index} * stride_]; }
  void Widen(size_t gpu_count);
  static Gpu BriefOf(const krux_gpu& gpu);
  void Value(uint32_t index);
  static uint32_t NeedOf(const Gpu& gpu, const SimplePod& pod);
  static bool Fits(const Gpu& gpu, uint32_t need_mib, const SimplePod& pod);
  static bool MayFit(const Node& node, const SimplePod& pod);
  Candidate CandidateOf(const Trial& trial, uint8_t gpu, uint32_t need_mib, uint32_t cores) const;
  bool FindOne(const Trial& trial, const SimplePod& pod, Candidate* found) const;
  bool FindSeveral(const Trial& trial, const SimplePod& pod, Candidate* found) const;
  Score ScoreWith(const Trial& trial, const Candidate* taken, size_t count) const;

  const Forecast* forecast_ = nullptr;
  size_t stride_ = 8;
  std::vector<Node> nodes_;
  std::vector<Gpu> gpus_;  // stride_ for each node
};

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_NODE_INDEX_H_
