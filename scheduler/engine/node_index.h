// The state of every node in few bytes, and the score of a simple pod on any of them in tens of
// nanoseconds. Simple: at most one container, fragmentation policy for node and GPU, no list of
// UUIDs. The score and the GPUs are the same as the planner's (cluster_test.cc holds them
// together).
//
// Used by Cluster; one thread at a time.
#ifndef KRUX_SCHEDULER_ENGINE_NODE_INDEX_H_
#define KRUX_SCHEDULER_ENGINE_NODE_INDEX_H_

#include <array>
#include <bit>
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

  // False only when it does not fit, as far as a glance at the node's sums tells.
  bool MayFit(uint32_t index, const SimplePod& pod) const { return MayFit(nodes_[index], pod); }
  // kNoScore when it does not fit.
  Score ScoreOf(uint32_t index, const SimplePod& pod) const { return Place(index, pod, nullptr); }
  // The same, and the GPUs.
  Score Place(uint32_t index, const SimplePod& pod, krux_placement* placement) const;

  // What ScoreOf() will read, fetched ahead: in a large cluster it is not in a near cache.
  // Inline, because gcc takes such a function for one without effect, and leaves out the call.
  [[gnu::always_inline]] void Prefetch(uint32_t index) const {
    __builtin_prefetch(&nodes_[index]);
    const Gpu* gpus = gpus_of(index);
    __builtin_prefetch(gpus);
    __builtin_prefetch(gpus + 4);
  }

  // Nodes of one fingerprint have the same score for every simple pod.
  uint64_t fingerprint(uint32_t index) const { return nodes_[index].fingerprint; }

 private:
  // 16 bytes, so that a node of 8 GPUs is two cache lines.
  struct Gpu {
    uint32_t free_mib = 0;  // 0 when it is not open
    uint32_t memory_mib = 0;
    uint16_t free_slots = 0;
    uint8_t free_cores = 0;
    uint8_t memory = 0;  // free shares as FreeOf() gives them
    uint8_t cores = 0;
    uint8_t usable = 0;
    uint8_t model = 0;
    uint8_t flags = 0;  // kOpen, kEmpty

    bool operator==(const Gpu& other) const { return Words() == other.Words(); }
    std::array<uint64_t, 2> Words() const { return std::bit_cast<std::array<uint64_t, 2>>(*this); }
  };
  static constexpr uint8_t kOpen = 1;  // takes newcomers, nobody holds it alone, not over-committed
  static constexpr uint8_t kEmpty = 2;

  // One cache line.
  struct alignas(64) Node {
    uint64_t free_cpu_milli = 0;  // kUnknownCpu: not known
    uint64_t free_host_mib = 0;
    uint64_t models = 0;  // of its open GPUs
    uint64_t fingerprint = 0;
    uint64_t takers = 0;    // bit i: GPU i is open, with memory and a slot free
    int32_t gpus_loss = 0;  // the GPUs' parts of it, at this CPU step
    int32_t loss = 0;
    uint32_t most_free_mib = 0;
    uint16_t cpu_step = 0;
    uint16_t usable = 0;
    uint8_t gpu_count = 0;
    uint8_t whole = 0;  // GPUs with nobody on them, as the forecast counts
    uint8_t empty = 0;  // GPUs that may be had alone
    uint8_t most_free_cores = 0;
  };
  // One GPU with the pod on it.
  struct Candidate {
    int64_t cost;   // loss of the node when this GPU alone is taken, but for a constant
    int32_t delta;  // change of the GPU's own loss
    uint32_t need_mib;
    uint8_t gpu;
    uint8_t usable;  // what is left
    bool was_whole;
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
  static void Count(const Gpu& gpu, size_t place, Node* node);
  void Value(uint32_t index);
  static uint32_t NeedOf(const Gpu& gpu, const SimplePod& pod);
  // Most nodes of a busy cluster end here.
  static bool MayFit(const Node& node, const SimplePod& pod) {
    const bool host = (pod.cpu_milli <= node.free_cpu_milli) & (pod.host_mib <= node.free_host_mib);
    if (pod.gpus == 0) return host && node.gpu_count > 0;
    // Without branches, as a processor could not guess them.
    return host & (pod.memory_mib <= node.most_free_mib) & (pod.cores <= node.most_free_cores) &
           ((pod.models & node.models) != 0) &
           (pod.gpus <= (pod.exclusive ? node.empty : node.gpu_count));
  }
  static uint64_t FittingGpus(const Trial& trial, const SimplePod& pod);
  int32_t LossOf(const Trial& trial) const;
  void Try(const Trial& trial, int gpu, const SimplePod& pod, Candidate* c) const;
  int64_t CostOf(const Trial& trial, const Candidate& c) const;
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
