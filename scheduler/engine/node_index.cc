#include "scheduler/engine/node_index.h"

#include <algorithm>
#include <cstring>

#include "scheduler/engine/policies/fragmentation.h"
#include "scheduler/engine/policy.h"
#include "scheduler/engine/selection.h"

namespace krux::engine {
namespace {

uint64_t Mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}

}  // namespace

bool SimplePod::IsSimple(const krux_pod& pod, const std::vector<krux_container>& containers) {
  return (containers.empty() || (containers.size() == 1 && containers[0].gpus > 0)) &&
         pod.node_policy == KRUX_FRAGMENTATION && pod.gpu_policy == KRUX_FRAGMENTATION &&
         pod.use_uuid_count == 0 && pod.no_uuid_count == 0;
}

SimplePod SimplePod::FromPod(const krux_pod& pod, const std::vector<krux_container>& containers) {
  SimplePod simple;
  simple.cpu_milli = pod.cpu_milli;
  simple.host_mib = pod.memory_mib;
  simple.models = AllowedModels(pod);
  if (containers.empty()) return simple;
  const krux_container& c = containers[0];
  simple.memory_mib = static_cast<uint32_t>(c.memory_mib);
  simple.memory_percent = c.memory_percent;
  simple.cores = c.cores;
  simple.gpus = c.gpus;
  simple.exclusive = c.cores >= 100 || (c.memory_mib == 0 && c.memory_percent == 0);
  return simple;
}

void NodeIndex::Adopt(const Forecast* forecast) {
  forecast_ = forecast;
  for (uint32_t i = 0; i < nodes_.size(); ++i) Value(i);
}

void NodeIndex::Widen(size_t gpu_count) {
  const size_t wider = (gpu_count + 7) / 8 * 8;
  std::vector<Gpu> gpus(nodes_.size() * wider);
  for (size_t node = 0; node < nodes_.size(); ++node) {
    std::copy_n(&gpus_[node * stride_], stride_, &gpus[node * wider]);
  }
  gpus_ = std::move(gpus);
  stride_ = wider;
}

NodeIndex::Gpu NodeIndex::BriefOf(const krux_gpu& gpu) {
  Gpu brief;
  const FreeShare free = FreeOf(gpu, GpuUse{});
  brief.memory_mib = static_cast<uint32_t>(gpu.memory_mib);
  brief.memory = free.memory;
  brief.cores = free.cores;
  brief.usable = std::min(free.memory, free.cores);
  brief.model = static_cast<uint8_t>(gpu.model % KRUX_MAX_MODELS);
  const bool open = TakesNewcomers(gpu) && (gpu.flags & KRUX_GPU_EXCLUSIVE) == 0 &&
                    gpu.used_memory_mib <= gpu.memory_mib && gpu.used_cores <= 100 &&
                    gpu.used_slots <= gpu.slots;
  if (!open) return brief;
  brief.free_mib = static_cast<uint32_t>(gpu.memory_mib - gpu.used_memory_mib);
  brief.free_cores = static_cast<uint8_t>(100 - gpu.used_cores);
  brief.free_slots = static_cast<uint16_t>(std::min(gpu.slots - gpu.used_slots, 0xffffU));
  const bool empty = gpu.used_slots == 0 && gpu.used_memory_mib == 0 && gpu.used_cores == 0;
  brief.flags = empty ? kOpen | kEmpty : kOpen;
  return brief;
}

void NodeIndex::Set(uint32_t index, const krux_node& node, const std::vector<krux_gpu>& before,
                    const krux_gpu* gpus, size_t gpu_count) {
  if (gpu_count > stride_) Widen(gpu_count);
  if (index >= nodes_.size()) {
    nodes_.resize(index + 1);
    gpus_.resize(nodes_.size() * stride_);
  }
  Node brief;
  brief.free_cpu_milli = node.cpu_milli == 0
                             ? kUnknownCpu
                             : node.cpu_milli - std::min(node.used_cpu_milli, node.cpu_milli);
  brief.free_host_mib = node.memory_mib == 0
                            ? kUnknownCpu
                            : node.memory_mib - std::min(node.used_memory_mib, node.memory_mib);
  brief.gpu_count = static_cast<uint8_t>(gpu_count);
  Gpu* out = &gpus_[size_t{index} * stride_];
  uint64_t hash = Mixed(brief.free_cpu_milli, brief.free_host_mib);
  for (size_t i = 0; i < gpu_count; ++i, ++out) {
    const bool same = i < before.size() && std::memcmp(&before[i], &gpus[i], sizeof *gpus) == 0;
    if (!same) *out = BriefOf(gpus[i]);
    Count(*out, i, &brief);
    // A sum, so that no GPU waits for the one before.
    const auto [first, second] = out->Words();
    hash += Mixed(Mixed(i, first), second);
  }
  brief.fingerprint = hash;
  nodes_[index] = brief;
  Value(index);
}

void NodeIndex::Count(const Gpu& gpu, size_t place, Node* node) {
  node->usable = static_cast<uint16_t>(node->usable + gpu.usable);
  node->whole = static_cast<uint8_t>(node->whole + (gpu.usable == kWholeShare ? 1 : 0));
  if ((gpu.flags & kOpen) == 0) return;
  node->takers |= uint64_t{gpu.free_mib > 0 && gpu.free_slots > 0} << place;
  node->models |= uint64_t{1} << gpu.model;
  node->empty = static_cast<uint8_t>(node->empty + ((gpu.flags & kEmpty) != 0 ? 1 : 0));
  node->most_free_mib = std::max(node->most_free_mib, gpu.free_mib);
  node->most_free_cores = std::max(node->most_free_cores, gpu.free_cores);
}

void NodeIndex::Value(uint32_t index) {
  Node& node = nodes_[index];
  node.loss = 0;
  node.gpus_loss = 0;
  if (node.gpu_count == 0) return;
  const Trial trial{node, gpus_of(index), node.free_cpu_milli,
                    forecast_->PointOf(node.free_cpu_milli)};
  node.gpus_loss = LossOf(trial);
  node.cpu_step = static_cast<uint16_t>(trial.cpu.step);
  node.loss = node.gpus_loss + static_cast<int32_t>(forecast_->NodeLoss(
                                   trial.gpus[0].model, trial.cpu, node.usable, node.whole));
}

// The functions below are inline, because together they are the inner loop of everything.

inline uint32_t NodeIndex::NeedOf(const Gpu& gpu, const SimplePod& pod) {
  if (pod.memory_mib > 0) return pod.memory_mib;
  if (pod.memory_percent == 0) return std::max(gpu.memory_mib, 1U);
  const uint64_t part = uint64_t{gpu.memory_mib} * pod.memory_percent / 100;
  return std::max(static_cast<uint32_t>(part), 1U);
}

// Bit i: GPU i takes the pod. Without branches: which ones fit is nothing that a processor could
// guess.
inline uint64_t NodeIndex::FittingGpus(const Trial& trial, const SimplePod& pod) {
  const uint8_t wanted = pod.exclusive ? kOpen | kEmpty : kOpen;
  uint64_t fitting = 0;
  for (uint64_t left = trial.node.takers; left != 0; left &= left - 1) {
    const int i = std::countr_zero(left);
    const Gpu& gpu = trial.gpus[i];
    const bool room = (NeedOf(gpu, pod) <= gpu.free_mib) & (pod.cores <= gpu.free_cores);
    const bool allowed = ((gpu.flags & wanted) == wanted) & ((pod.models >> gpu.model & 1) != 0);
    fitting |= static_cast<uint64_t>(room & allowed) << i;
  }
  return fitting;
}

// The GPUs' parts of the node's loss. Those that take nobody have no usable share, and no part.
int32_t NodeIndex::LossOf(const Trial& trial) const {
  int64_t loss = 0;
  for (uint64_t left = trial.node.takers; left != 0; left &= left - 1) {
    const Gpu& gpu = trial.gpus[std::countr_zero(left)];
    loss += forecast_->GpuLoss(gpu.model, trial.cpu, gpu.memory, gpu.cores);
  }
  return static_cast<int32_t>(loss);
}

inline void NodeIndex::Try(const Trial& trial, int index, const SimplePod& pod,
                           Candidate* c) const {
  const Gpu& gpu = trial.gpus[index];
  c->gpu = static_cast<uint8_t>(index);
  c->need_mib = NeedOf(gpu, pod);
  uint32_t memory_left = ShareOf(gpu.free_mib - c->need_mib, gpu.memory_mib);
  uint32_t cores_left = gpu.free_cores - pod.cores;
  // As FreeOf() has it: with somebody on it a GPU is not whole, and with all slots used it is full.
  memory_left = std::min<uint32_t>(memory_left, kWholeShare - 1);
  cores_left = std::min<uint32_t>(cores_left, kWholeShare - 1);
  if (gpu.free_slots == 1) memory_left = cores_left = 0;
  c->usable = static_cast<uint8_t>(std::min(memory_left, cores_left));
  c->was_whole = gpu.usable == kWholeShare;
  c->delta =
      static_cast<int32_t>(forecast_->GpuLoss(gpu.model, trial.cpu, memory_left, cores_left) -
                           forecast_->GpuLoss(gpu.model, trial.cpu, gpu.memory, gpu.cores));
}

inline int64_t NodeIndex::CostOf(const Trial& trial, const Candidate& c) const {
  // The fullest of equals, as the policy has it.
  return c.delta + c.usable +
         forecast_->NodeLoss(trial.gpus[0].model, trial.cpu,
                             trial.node.usable - trial.gpus[c.gpu].usable + c.usable,
                             trial.node.whole - (c.was_whole ? 1U : 0U));
}

inline bool NodeIndex::FindOne(const Trial& trial, const SimplePod& pod, Candidate* found) const {
  uint64_t left = FittingGpus(trial, pod);
  if (left == 0) return false;
  int last = std::countr_zero(left);
  Try(trial, last, pod, found);
  left &= left - 1;
  if (left == 0) return true;  // no choice: its cost does not matter
  found->cost = CostOf(trial, *found);
  for (; left != 0; left &= left - 1) {
    const int gpu = std::countr_zero(left);
    // Idle GPUs are alike, and there are many.
    if (trial.gpus[gpu] == trial.gpus[last]) continue;
    last = gpu;
    Candidate c;
    Try(trial, gpu, pod, &c);
    c.cost = CostOf(trial, c);
    if (c.cost < found->cost) *found = c;
  }
  return true;
}

bool NodeIndex::FindSeveral(const Trial& trial, const SimplePod& pod, Candidate* found) const {
  uint64_t left = FittingGpus(trial, pod);
  if (static_cast<uint32_t>(std::popcount(left)) < pod.gpus) return false;
  std::array<Candidate, KRUX_MAX_GPUS> all;
  size_t count = 0;
  for (; left != 0; left &= left - 1) {
    Candidate& c = all[count++];
    Try(trial, std::countr_zero(left), pod, &c);
    c.cost = CostOf(trial, c);
  }
  std::partial_sort_copy(all.begin(), all.begin() + count, found, found + pod.gpus,
                         [](const Candidate& a, const Candidate& b) {
                           return a.cost != b.cost ? a.cost < b.cost : a.gpu < b.gpu;
                         });
  std::sort(found, found + pod.gpus,
            [](const Candidate& a, const Candidate& b) { return a.gpu < b.gpu; });
  return true;
}

inline Score NodeIndex::ScoreWith(const Trial& trial, const Candidate* taken, size_t count) const {
  const Node& node = trial.node;
  int64_t loss = trial.cpu.step == node.cpu_step ? node.gpus_loss : LossOf(trial);
  uint32_t usable = node.usable;
  uint32_t whole = node.whole;
  double scarce = 0;
  for (size_t i = 0; i < count; ++i) {
    const Gpu& gpu = trial.gpus[taken[i].gpu];
    const uint32_t share = gpu.usable - taken[i].usable;
    loss += taken[i].delta;
    usable -= share;
    whole -= taken[i].was_whole ? 1 : 0;
    scarce += static_cast<double>(forecast_->scarcity(gpu.model)) * static_cast<int>(share);
  }
  loss += forecast_->NodeLoss(trial.gpus[0].model, trial.cpu, usable, whole);
  return static_cast<Score>(FragmentationScore(node.loss, loss, usable, trial.cpu_milli, scarce));
}

Score NodeIndex::Place(uint32_t index, const SimplePod& pod, krux_placement* placement) const {
  const Node& node = nodes_[index];
  if (!MayFit(node, pod)) return kNoScore;
  const uint64_t cpu =
      node.free_cpu_milli == kUnknownCpu ? kUnknownCpu : node.free_cpu_milli - pod.cpu_milli;
  const Trial trial{node, gpus_of(index), cpu, forecast_->PointOf(cpu)};
  std::array<Candidate, KRUX_MAX_GPUS_PER_CONTAINER> taken;
  if (pod.gpus == 1 && !FindOne(trial, pod, taken.data())) return kNoScore;
  if (pod.gpus > 1 && !FindSeveral(trial, pod, taken.data())) return kNoScore;
  if (placement != nullptr) {
    placement->count = pod.gpus;
    for (size_t i = 0; i < pod.gpus; ++i) {
      placement->gpu[i] = taken[i].gpu;
      placement->memory_mib[i] = taken[i].need_mib;
    }
  }
  return ScoreWith(trial, taken.data(), pod.gpus);
}

}  // namespace krux::engine
