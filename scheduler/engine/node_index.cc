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
  brief.open = TakesNewcomers(gpu) && (gpu.flags & KRUX_GPU_EXCLUSIVE) == 0 &&
               gpu.used_memory_mib <= gpu.memory_mib && gpu.used_cores <= 100 &&
               gpu.used_slots <= gpu.slots;
  if (!brief.open) return brief;
  brief.free_mib = static_cast<uint32_t>(gpu.memory_mib - gpu.used_memory_mib);
  brief.free_cores = static_cast<uint8_t>(100 - gpu.used_cores);
  brief.free_slots = static_cast<uint16_t>(std::min(gpu.slots - gpu.used_slots, 0xffffU));
  brief.empty = gpu.used_slots == 0 && gpu.used_memory_mib == 0 && gpu.used_cores == 0;
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
  for (size_t i = 0; i < gpu_count; ++i) {
    const bool same = i < before.size() && std::memcmp(&before[i], &gpus[i], sizeof *gpus) == 0;
    if (!same) *out = BriefOf(gpus[i]);
    brief.usable = static_cast<uint16_t>(brief.usable + out->usable);
    brief.whole = static_cast<uint8_t>(brief.whole + (out->usable == kWholeShare ? 1 : 0));
    if (out->open) {
      brief.models |= uint64_t{1} << out->model;
      brief.empty = static_cast<uint8_t>(brief.empty + (out->empty ? 1 : 0));
      brief.most_free_mib = std::max(brief.most_free_mib, out->free_mib);
      brief.most_free_cores = std::max(brief.most_free_cores, out->free_cores);
    }
    hash = Mixed(hash, uint64_t{out->free_mib} << 32 | out->memory_mib);
    hash = Mixed(hash, uint64_t{out->free_slots} << 32 | uint64_t{out->free_cores} << 24 |
                           uint64_t{out->cores} << 16 | uint64_t{out->model} << 8 |
                           (out->open ? 2U : 0U) | (out->empty ? 1U : 0U));
    ++out;
  }
  brief.fingerprint = hash;
  nodes_[index] = brief;
  Value(index);
}

void NodeIndex::Value(uint32_t index) {
  Node& node = nodes_[index];
  node.loss = 0;
  node.gpus_loss = 0;
  if (node.gpu_count == 0) return;
  const Gpu* gpus = gpus_of(index);
  const Forecast::CpuPoint cpu = forecast_->PointOf(node.free_cpu_milli);
  for (size_t gpu = 0; gpu < node.gpu_count; ++gpu) {
    node.gpus_loss += forecast_->GpuLoss(gpus[gpu].model, cpu, gpus[gpu].memory, gpus[gpu].cores);
  }
  node.cpu_step = cpu.step;
  node.loss = node.gpus_loss + forecast_->NodeLoss(gpus[0].model, cpu, node.usable, node.whole);
}

uint32_t NodeIndex::NeedOf(const Gpu& gpu, const SimplePod& pod) {
  if (pod.memory_mib > 0) return pod.memory_mib;
  if (pod.memory_percent == 0) return std::max(gpu.memory_mib, 1U);
  const uint64_t part = uint64_t{gpu.memory_mib} * pod.memory_percent / 100;
  return std::max(static_cast<uint32_t>(part), 1U);
}

bool NodeIndex::Fits(const Gpu& gpu, uint32_t need_mib, const SimplePod& pod) {
  return gpu.open && need_mib <= gpu.free_mib && pod.cores <= gpu.free_cores &&
         gpu.free_slots > 0 && (!pod.exclusive || gpu.empty) && (pod.models >> gpu.model & 1) != 0;
}

// What can be said of the whole node; most nodes of a busy cluster end here.
bool NodeIndex::MayFit(const Node& node, const SimplePod& pod) {
  if (pod.cpu_milli > node.free_cpu_milli || pod.host_mib > node.free_host_mib) return false;
  if (pod.gpus == 0) return node.gpu_count > 0;
  return pod.memory_mib <= node.most_free_mib && pod.cores <= node.most_free_cores &&
         (pod.models & node.models) != 0 && pod.gpus <= node.gpu_count &&
         (!pod.exclusive || pod.gpus <= node.empty);
}

NodeIndex::Candidate NodeIndex::CandidateOf(const Trial& trial, uint8_t index, uint32_t need_mib,
                                            uint32_t cores) const {
  const Gpu& gpu = trial.gpus[index];
  Candidate c;
  c.gpu = index;
  c.need_mib = need_mib;
  uint32_t memory_left = ShareOf(gpu.free_mib - need_mib, gpu.memory_mib);
  uint32_t cores_left = gpu.free_cores - cores;
  // As FreeOf() has it: with somebody on it a GPU is not whole, and with all slots used it is full.
  memory_left = std::min<uint32_t>(memory_left, kWholeShare - 1);
  cores_left = std::min<uint32_t>(cores_left, kWholeShare - 1);
  if (gpu.free_slots == 1) memory_left = cores_left = 0;
  c.usable = static_cast<uint8_t>(std::min(memory_left, cores_left));
  c.was_whole = gpu.usable == kWholeShare;
  c.delta = forecast_->GpuLoss(gpu.model, trial.cpu, memory_left, cores_left) -
            forecast_->GpuLoss(gpu.model, trial.cpu, gpu.memory, gpu.cores);
  // The fullest of equals, as the policy has it.
  c.cost =
      c.delta + c.usable +
      forecast_->NodeLoss(trial.gpus[0].model, trial.cpu, trial.node.usable - gpu.usable + c.usable,
                          trial.node.whole - (c.was_whole ? 1U : 0U));
  return c;
}

bool NodeIndex::FindOne(const Trial& trial, const SimplePod& pod, Candidate* found) const {
  found->cost = std::numeric_limits<int64_t>::max();
  const Gpu* last = nullptr;
  for (uint8_t i = 0; i < trial.node.gpu_count; ++i) {
    const Gpu& gpu = trial.gpus[i];
    // Idle GPUs are alike, and there are many.
    if (last != nullptr && gpu == *last) continue;
    const uint32_t need = NeedOf(gpu, pod);
    if (!Fits(gpu, need, pod)) continue;
    last = &gpu;
    const Candidate c = CandidateOf(trial, i, need, pod.cores);
    if (c.cost < found->cost) *found = c;
  }
  return last != nullptr;
}

bool NodeIndex::FindSeveral(const Trial& trial, const SimplePod& pod, Candidate* found) const {
  std::array<Candidate, KRUX_MAX_GPUS> all;
  size_t count = 0;
  for (uint8_t i = 0; i < trial.node.gpu_count; ++i) {
    const uint32_t need = NeedOf(trial.gpus[i], pod);
    if (!Fits(trial.gpus[i], need, pod)) continue;
    all[count++] = CandidateOf(trial, i, need, pod.cores);
  }
  if (count < pod.gpus) return false;
  std::partial_sort_copy(all.begin(), all.begin() + count, found, found + pod.gpus,
                         [](const Candidate& a, const Candidate& b) {
                           return a.cost != b.cost ? a.cost < b.cost : a.gpu < b.gpu;
                         });
  std::sort(found, found + pod.gpus,
            [](const Candidate& a, const Candidate& b) { return a.gpu < b.gpu; });
  return true;
}

Score NodeIndex::ScoreWith(const Trial& trial, const Candidate* taken, size_t count) const {
  const Node& node = trial.node;
  int64_t loss = node.gpus_loss;
  if (trial.cpu.step != node.cpu_step) {
    loss = 0;
    for (size_t gpu = 0; gpu < node.gpu_count; ++gpu) {
      const Gpu& g = trial.gpus[gpu];
      loss += forecast_->GpuLoss(g.model, trial.cpu, g.memory, g.cores);
    }
  }
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
