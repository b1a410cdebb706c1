#include "scheduler/engine/mix.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "scheduler/engine/knowledge.h"

namespace krux::engine {
namespace {

constexpr float kCovered = 0.95F;

float DemandOf(const Typical& t) {
  const float share = t.exclusive ? 1 : std::max(t.memory_share, t.cores_share);
  return static_cast<float>(t.gpus) * share;
}

bool IsPinned(const Typical& t) { return t.models != ~uint64_t{0}; }

// cpu_milli, share of a GPU in percent (100 = whole), GPUs, pods of 10,000: the classes that cover
// 95 % of the pods of the public trace "openb" (Weng et al., USENIX ATC 2023).
struct Shipped {
  uint32_t cpu_milli;
  uint16_t share;
  uint16_t gpus;
  uint16_t pods;
};
constexpr Shipped kShipped[] = {
#include "scheduler/engine/shipped_mix.inc"
};

std::vector<Typical> ShippedClasses() {
  std::vector<Typical> classes;
  for (const Shipped& s : kShipped) {
    krux_container c{};
    c.gpus = s.gpus;
    c.memory_percent = s.share == 100 ? 0 : s.share;
    c.cores = s.share;
    classes.push_back(MakeTypical(c, s.cpu_milli, 0, s.pods));
  }
  return classes;
}

}  // namespace

Typical MakeTypical(const krux_container& c, uint64_t cpu_milli, uint64_t models, double weight) {
  Typical t;
  t.memory_mib = c.memory_mib;
  t.exclusive = c.cores == 100 || (c.memory_mib == 0 && c.memory_percent == 0);
  t.memory_share = c.memory_percent == 0 ? 1 : static_cast<float>(c.memory_percent) / 100;
  if (c.memory_mib != 0) t.memory_share = 0;
  t.cores_share = static_cast<float>(c.cores) / 100;
  t.weight = static_cast<float>(weight);
  t.gpus = c.gpus;
  t.cpu_milli = cpu_milli;
  t.models = models == 0 ? ~uint64_t{0} : models;
  return t;
}

const krux_container* LargestContainer(const krux_container* containers, size_t count) {
  const krux_container* largest = nullptr;
  const auto size = [](const krux_container& c) {
    const bool whole = c.cores == 100 || (c.memory_mib == 0 && c.memory_percent == 0);
    return std::make_tuple(c.gpus, whole, c.memory_mib, c.memory_percent, c.cores);
  };
  for (size_t i = 0; i < count; ++i) {
    if (containers[i].gpus == 0) continue;
    if (largest == nullptr || size(*largest) < size(containers[i])) largest = &containers[i];
  }
  return largest;
}

Mix::Mix(std::vector<Typical> classes, const GpusOfModel& gpus) : classes_(std::move(classes)) {
  PriceModels(gpus);
  FindBlocks();
  Shorten();
}

void Mix::FindBlocks() {
  float demand = 0;
  for (const Typical& t : classes_) demand += t.weight * DemandOf(t);
  for (const Typical& t : classes_) {
    if (t.gpus < 2) continue;
    blocks_.push_back(t);
    blocks_.back().weight = t.weight * DemandOf(t) / demand;
  }
}

double Mix::DifferenceFrom(const Mix& other) const {
  double common = 0;
  for (const Typical& t : classes_) {
    for (const Typical& o : other.classes_) {
      if (t.SameClassAs(o)) common += static_cast<double>(std::min(t.weight, o.weight));
    }
  }
  return 1 - common;
}

void Mix::Shorten() {
  const auto order = [](const Typical& t) {
    return std::make_tuple(-t.weight, t.cpu_milli, t.gpus, t.memory_mib, t.memory_share,
                           t.cores_share, t.models);
  };
  std::sort(classes_.begin(), classes_.end(),
            [&](const Typical& a, const Typical& b) { return order(a) < order(b); });
  float all = 0;
  for (const Typical& t : classes_) all += t.weight;
  float covered = 0;
  size_t kept = 0;
  while (kept < classes_.size() && kept < KRUX_MAX_TYPICAL && covered < kCovered * all) {
    covered += classes_[kept++].weight;
  }
  classes_.resize(kept);
  for (Typical& t : classes_) t.weight /= covered;
}

void Mix::PriceModels(const GpusOfModel& gpus) {
  float demand = 0;
  float supply = 0;
  for (const Typical& t : classes_) demand += t.weight * DemandOf(t);
  for (const uint32_t n : gpus) supply += static_cast<float>(n);
  if (demand <= 0 || supply <= 0) return;
  for (const Typical& t : classes_) {
    if (!IsPinned(t)) continue;
    float allowed = 0;
    for (size_t m = 0; m < gpus.size(); ++m) {
      if ((t.models >> m & 1) != 0) allowed += static_cast<float>(gpus[m]);
    }
    if (allowed <= 0) continue;
    for (size_t m = 0; m < gpus.size(); ++m) {
      if ((t.models >> m & 1) != 0) {
        scarcity_[m] += t.weight * DemandOf(t) / allowed / (demand / supply);
      }
    }
  }
}

Mix ShippedMix() { return {ShippedClasses(), GpusOfModel{}}; }

const Knowledge& ShippedKnowledge() {
  static const Knowledge knowledge(ShippedMix(), Fleet{});
  return knowledge;
}

}  // namespace krux::engine
