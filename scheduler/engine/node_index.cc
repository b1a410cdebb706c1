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

void NodeIndex::Set(uint32_t index, const krux_node& node, const std::vector<krux_gpu>& gpus) {
  if (gpus.size() > stride_) Widen(gpus.size());
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
  brief.gpu_count = static_cast<uint8_t>(gpus.size());
  Gpu* out = &gpus_[size_t{index} * stride_];
  uint64_t hash = Mixed(brief.free_cpu_milli, brief.free_host_mib);
  for (const krux_gpu& gpu : gpus) {
    *out = BriefOf(gpu);
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
  if (node.gpu_count == 0) return;
  const Gpu* gpus = gpus_of(index);
  const uint32_t step = forecast_->CpuStep(node.free_cpu_milli);
  for (size_t gpu = 0; gpu < node.gpu_count; ++gpu) {
    node.loss += forecast_->GpuLoss(gpus[gpu].model, step, gpus[gpu].memory, gpus[gpu].cores);
  }
  node.loss +=
      forecast_->NodeLoss(gpus[0].model, node.free_cpu_milli, step, node.usable, node.whole);
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

NodeIndex::Candidate NodeIndex::CandidateOf(const Gpu& gpu, uint32_t need_mib, uint32_t step,
                                            uint32_t cores) const {
  Candidate c;
  c.need_mib = need_mib;
  uint32_t memory_left = ShareOf(gpu.free_mib - need_mib, gpu.memory_mib);
  uint32_t cores_left = gpu.free_cores - cores;
  // As FreeOf() has it: with somebody on it a GPU is not whole, and with all slots used it is full.
  memory_left = std::min<uint32_t>(memory_left, kWholeShare - 1);
  cores_left = std::min<uint32_t>(cores_left, kWholeShare - 1);
  if (gpu.free_slots == 1) memory_left = cores_left = 0;
  c.usable = static_cast<uint8_t>(std::min(memory_left, cores_left));
  c.was_whole = gpu.usable == kWholeShare;
  c.delta = forecast_->GpuLoss(gpu.model, step, memory_left, cores_left) -
            forecast_->GpuLoss(gpu.model, step, gpu.memory, gpu.cores);
  return c;
}

Score NodeIndex::Place(uint32_t index, const SimplePod& pod, krux_placement* placement) const {
  const Node& node = nodes_[index];
  if (pod.cpu_milli > node.free_cpu_milli || pod.host_mib > node.free_host_mib ||
      pod.memory_mib > node.most_free_mib || pod.cores > node.most_free_cores ||
      node.gpu_count == 0 || pod.gpus > node.gpu_count ||
      (pod.gpus > 0 && (pod.models & node.models) == 0) ||
      (pod.exclusive && pod.gpus > node.empty)) {
    return kNoScore;
  }
  const Gpu* gpus = gpus_of(index);
  const uint64_t cpu =
      node.free_cpu_milli == kUnknownCpu ? kUnknownCpu : node.free_cpu_milli - pod.cpu_milli;
  const uint32_t step = forecast_->CpuStep(cpu);
  std::array<Candidate, KRUX_MAX_GPUS> found;
  size_t count = 0;
  for (uint8_t gpu = 0; gpu < node.gpu_count && pod.gpus > 0; ++gpu) {
    const uint32_t need = NeedOf(gpus[gpu], pod);
    if (!Fits(gpus[gpu], need, pod)) continue;
    Candidate c = CandidateOf(gpus[gpu], need, step, pod.cores);
    c.gpu = gpu;
    c.cost =
        c.delta +
        forecast_->NodeLoss(gpus[0].model, cpu, step, node.usable - gpus[gpu].usable + c.usable,
                            node.whole - (c.was_whole ? 1U : 0U)) +
        c.usable;  // the fullest of equals, as the policy has it
    found[count++] = c;
  }
  if (count < pod.gpus) return kNoScore;
  const auto cheaper = [](const Candidate& a, const Candidate& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.gpu < b.gpu;
  };
  std::partial_sort(found.begin(), found.begin() + pod.gpus, found.begin() + count, cheaper);
  std::sort(found.begin(), found.begin() + pod.gpus,
            [](const Candidate& a, const Candidate& b) { return a.gpu < b.gpu; });
  int64_t loss = 0;
  for (size_t gpu = 0; gpu < node.gpu_count; ++gpu) {
    loss += forecast_->GpuLoss(gpus[gpu].model, step, gpus[gpu].memory, gpus[gpu].cores);
  }
  uint32_t usable = node.usable;
  uint32_t whole = node.whole;
  double scarce = 0;
  for (size_t i = 0; i < pod.gpus; ++i) {
    const Gpu& gpu = gpus[found[i].gpu];
    const uint32_t taken = gpu.usable - found[i].usable;
    loss += found[i].delta;
    usable -= taken;
    whole -= found[i].was_whole ? 1 : 0;
    scarce += static_cast<double>(forecast_->scarcity(gpu.model)) * static_cast<int>(taken);
  }
  loss += forecast_->NodeLoss(gpus[0].model, cpu, step, usable, whole);
  if (placement != nullptr) {
    placement->count = pod.gpus;
    for (size_t i = 0; i < pod.gpus; ++i) {
      placement->gpu[i] = found[i].gpu;
      placement->memory_mib[i] = found[i].need_mib;
    }
  }
  return static_cast<Score>(FragmentationScore(node.loss, loss, usable, cpu, scarce));
}

}  // namespace krux::engine
