#include "scheduler/engine/planner.h"

#include <algorithm>
#include <tuple>

namespace krux::engine {
namespace {

constexpr uint64_t kScale = 10000;

uint64_t Fraction(uint64_t part, uint64_t whole) { return whole == 0 ? 0 : part * kScale / whole; }

}  // namespace

Planner::Planner(const krux_gpu* gpus, size_t gpu_count, const krux_container* containers,
                 size_t container_count, const Phases& phases)
    : gpus_(gpus),
      gpu_count_(gpu_count),
      containers_(containers),
      container_count_(container_count),
      phases_(phases) {
  for (size_t gpu = 0; gpu < gpu_count_; ++gpu) {
    std::fill_n(use_[gpu].begin(), phases_.count, PhaseUse{});
  }
}

void Planner::Plan(krux_placement* placements, krux_verdict* verdict) {
  *verdict = {};
  placements_ = placements;
  verdict_ = verdict;
  std::fill_n(placements, container_count_, krux_placement{});
  OrderContainers();
  if (turns_ > 0 && !CheckNode(verdict)) return;
  if (PlaceContainer(0)) {
    verdict->code = KRUX_FITS;
    verdict->score = Score();
  }
}

// Containers that run for good come first, so that init containers settle for what is there; the
// hardest to place lead, because they have the fewest choices.
void Planner::OrderContainers() {
  for (size_t i = 0; i < container_count_; ++i) {
    if (containers_[i].gpus > 0) order_[turns_++] = static_cast<uint8_t>(i);
  }
  const auto hardness = [this](uint8_t index) {
    const krux_container& c = containers_[index];
    return std::make_tuple(c.kind == KRUX_INIT ? 0 : 1, IsExclusive(c) ? 1 : 0, c.memory_percent,
                           c.memory_mib, c.cores, c.gpus);
  };
  std::sort(order_.begin(), order_.begin() + turns_, [&](uint8_t a, uint8_t b) {
    return std::make_tuple(hardness(b), a) < std::make_tuple(hardness(a), b);
  });
}

bool Planner::IsOpen(size_t gpu) const {
  const krux_gpu& g = gpus_[gpu];
  return (g.flags & KRUX_GPU_HEALTHY) != 0 && g.used_memory_mib <= g.memory_mib &&
         g.used_cores <= 100 && g.used_slots <= g.slots;
}

bool Planner::IsExclusive(const krux_container& container) const {
  const bool whole = container.memory_mib == 0 && container.memory_percent == 0;
  return whole || container.cores >= 100;
}

uint64_t Planner::Need(const krux_container& container, size_t gpu) const {
  if (container.memory_mib > 0) return container.memory_mib;
  const uint64_t all = gpus_[gpu].memory_mib;
  if (container.memory_percent == 0) return std::max<uint64_t>(all, 1);
  return std::max<uint64_t>(all * container.memory_percent / 100, 1);
}

bool Planner::Shortfall::CloserThan(const Shortfall& other) const {
  const auto rank = [](const Shortfall& s) {
    const int kinds = (s.memory_mib > 0) + (s.cores > 0) + s.slots_full + s.not_empty;
    return std::make_tuple(kinds, s.memory_mib, s.cores);
  };
  return rank(*this) < rank(other);
}

Planner::Shortfall Planner::Missing(size_t container, size_t gpu) const {
  const krux_container& c = containers_[container];
  const krux_gpu& g = gpus_[gpu];
  const uint64_t need = Need(c, gpu);
  const bool exclusive = IsExclusive(c);
  Shortfall missing;
  missing.not_empty = exclusive ? g.used_slots > 0 || g.used_memory_mib > 0 || g.used_cores > 0
                                : (g.flags & KRUX_GPU_EXCLUSIVE) != 0;
  for (size_t p = phases_.first[container]; p <= phases_.last[container]; ++p) {
    const PhaseUse& use = use_[gpu][p];
    const uint64_t memory = g.used_memory_mib + use.memory_mib + need;
    const uint32_t cores = g.used_cores + use.cores + c.cores;
    if (memory > g.memory_mib) {
      missing.memory_mib = std::max(missing.memory_mib, memory - g.memory_mib);
    }
    if (cores > 100) missing.cores = std::max(missing.cores, cores - 100);
    if (g.used_slots + use.slots + 1 > g.slots) missing.slots_full = true;
    if (exclusive ? use.slots > 0 : use.exclusive > 0) missing.not_empty = true;
  }
  // In use by one who must be alone says it all; numbers would suggest that less would do.
  if (missing.not_empty) {
    missing.cores = 0;
    if (need <= g.memory_mib) missing.memory_mib = 0;
  }
  return missing;
}

void Planner::Apply(size_t container, size_t gpu, bool add) {
  const krux_container& c = containers_[container];
  const uint64_t need = Need(c, gpu);
  for (size_t p = phases_.first[container]; p <= phases_.last[container]; ++p) {
    PhaseUse& use = use_[gpu][p];
    if (add) {
      use.memory_mib += need;
      use.cores += c.cores;
      ++use.slots;
      use.exclusive = static_cast<uint16_t>(use.exclusive + (IsExclusive(c) ? 1 : 0));
    } else {
      use.memory_mib -= need;
      use.cores -= c.cores;
      --use.slots;
      use.exclusive = static_cast<uint16_t>(use.exclusive - (IsExclusive(c) ? 1 : 0));
    }
  }
}

bool Planner::SameState(size_t a, size_t b) const {
  const krux_gpu& x = gpus_[a];
  const krux_gpu& y = gpus_[b];
  return x.memory_mib == y.memory_mib && x.used_memory_mib == y.used_memory_mib &&
         x.used_cores == y.used_cores && x.used_slots == y.used_slots && x.slots == y.slots &&
         x.flags == y.flags &&
         std::equal(use_[a].begin(), use_[a].begin() + phases_.count, use_[b].begin());
}

// What would be left on the GPU at the busiest phase, memory and time together, in 1/kScale.
uint64_t Planner::Leftover(size_t container, size_t gpu) const {
  const krux_container& c = containers_[container];
  const krux_gpu& g = gpus_[gpu];
  uint64_t memory = 0;
  uint32_t cores = 0;
  for (size_t p = 0; p < phases_.count; ++p) {
    const bool active = p >= phases_.first[container] && p <= phases_.last[container];
    const PhaseUse& use = use_[gpu][p];
    memory = std::max(memory, use.memory_mib + (active ? Need(c, gpu) : 0));
    cores = std::max(cores, use.cores + (active ? c.cores : 0));
  }
  return Fraction(g.memory_mib - g.used_memory_mib - memory, g.memory_mib) +
         Fraction(100 - g.used_cores - cores, 100);
}

size_t Planner::FindCandidates(size_t container) {
  auto& list = candidates_[container];
  std::array<uint64_t, KRUX_MAX_GPUS> leftover{};
  size_t count = 0;
  for (size_t gpu = 0; gpu < gpu_count_; ++gpu) {
    if (!IsOpen(gpu) || Missing(container, gpu).Any()) continue;
    leftover[gpu] = Leftover(container, gpu);
    list[count++] = static_cast<uint8_t>(gpu);
  }
  std::sort(list.begin(), list.begin() + count, [&](uint8_t a, uint8_t b) {
    return std::make_tuple(leftover[a], a) < std::make_tuple(leftover[b], b);
  });
  candidate_count_[container] = static_cast<uint8_t>(count);
  return count;
}

bool Planner::PlaceContainer(size_t turn) {
  if (turn == turns_) return true;
  const size_t container = order_[turn];
  if (FindCandidates(container) < containers_[container].gpus) {
    // The first failure is the one of plain best fit: the most useful one to tell.
    if (verdict_->code == KRUX_FITS) Explain(container, verdict_);
    return false;
  }
  return PlaceNext(turn, 0, 0);
}

bool Planner::PlaceNext(size_t turn, size_t chosen, size_t from) {
  const size_t container = order_[turn];
  const size_t wanted = containers_[container].gpus;
  if (chosen == wanted) return PlaceContainer(turn + 1);
  const auto& list = candidates_[container];
  const size_t count = candidate_count_[container];
  for (size_t i = from; i + (wanted - chosen) <= count; ++i) {
    const size_t gpu = list[i];
    if (i > from && SameState(gpu, list[i - 1])) continue;
    if (++steps_ > kMaxSteps) return false;
    krux_placement& placement = placements_[container];
    placement.count = static_cast<uint32_t>(chosen + 1);
    placement.gpu[chosen] = static_cast<uint32_t>(gpu);
    placement.memory_mib[chosen] = Need(containers_[container], gpu);
    Apply(container, gpu, /*add=*/true);
    if (PlaceNext(turn, chosen + 1, i + 1)) return true;
    Apply(container, gpu, /*add=*/false);
  }
  return false;
}

uint32_t Planner::Score() const {
  uint64_t leftover = 0;
  uint64_t touched = 0;
  for (size_t gpu = 0; gpu < gpu_count_; ++gpu) {
    PhaseUse peak;
    for (size_t p = 0; p < phases_.count; ++p) {
      peak.memory_mib = std::max(peak.memory_mib, use_[gpu][p].memory_mib);
      peak.cores = std::max(peak.cores, use_[gpu][p].cores);
    }
    if (peak.memory_mib == 0) continue;
    const krux_gpu& g = gpus_[gpu];
    leftover += Fraction(g.memory_mib - g.used_memory_mib - peak.memory_mib, g.memory_mib) +
                Fraction(100 - g.used_cores - peak.cores, 100);
    ++touched;
  }
  return touched == 0 ? 0 : static_cast<uint32_t>(kScale - leftover / (2 * touched));
}

}  // namespace krux::engine
