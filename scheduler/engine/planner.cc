#include "scheduler/engine/planner.h"

#include <algorithm>
#include <tuple>

#include "scheduler/engine/selection.h"

namespace krux::engine {
Planner::Planner(const NodeView& view, const krux_container* containers, size_t container_count,
                 const Phases& phases)
    : view_(view),
      node_policy_(PolicyOf(view.pod->node_policy)),
      gpu_policy_(PolicyOf(view.pod->gpu_policy)),
      gpus_(view.gpus),
      gpu_count_(view.gpu_count),
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
  return TakesNewcomers(g) && IsAllowed(gpu) && g.used_memory_mib <= g.memory_mib &&
         g.used_cores <= 100 && g.used_slots <= g.slots;
}

bool Planner::IsAllowed(size_t gpu) const {
  return AllowsModel(*view_.pod, gpus_[gpu]) && AllowsUuid(*view_.pod, gpus_[gpu]);
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

GpuUse Planner::PeakOf(size_t gpu) const {
  GpuUse peak;
  for (size_t p = 0; p < phases_.count; ++p) {
    const PhaseUse& use = use_[gpu][p];
    peak.memory_mib = std::max(peak.memory_mib, use.memory_mib);
    peak.cores = std::max(peak.cores, use.cores);
    peak.slots = std::max<uint32_t>(peak.slots, use.slots);
  }
  return peak;
}

// By how much the container raises the pod's peak on this GPU.
GpuUse Planner::AddedPeak(size_t container, size_t gpu) const {
  const krux_container& c = containers_[container];
  const GpuUse before = PeakOf(gpu);
  GpuUse after = before;
  for (size_t p = phases_.first[container]; p <= phases_.last[container]; ++p) {
    const PhaseUse& use = use_[gpu][p];
    after.memory_mib = std::max(after.memory_mib, use.memory_mib + Need(c, gpu));
    after.cores = std::max(after.cores, use.cores + c.cores);
    after.slots = std::max<uint32_t>(after.slots, use.slots + 1U);
  }
  return {after.memory_mib - before.memory_mib, after.cores - before.cores,
          after.slots - before.slots};
}

NodeUse Planner::Peaks() const {
  NodeUse use{};
  for (size_t gpu = 0; gpu < gpu_count_; ++gpu) use[gpu] = PeakOf(gpu);
  return use;
}

size_t Planner::FindCandidates(size_t container) {
  auto& list = candidates_[container];
  std::array<int64_t, KRUX_MAX_GPUS> cost{};
  size_t count = 0;
  const NodeUse use = Peaks();
  for (size_t gpu = 0; gpu < gpu_count_; ++gpu) {
    if (!IsOpen(gpu) || Missing(container, gpu).Any()) continue;
    cost[gpu] = gpu_policy_->gpu_cost(view_, use, gpu, AddedPeak(container, gpu));
    list[count++] = static_cast<uint8_t>(gpu);
  }
  std::sort(list.begin(), list.begin() + count, [&](uint8_t a, uint8_t b) {
    return std::make_tuple(cost[a], a) < std::make_tuple(cost[b], b);
  });
  candidate_count_[container] = static_cast<uint8_t>(count);
  if (containers_[container].gpus > 1 && containers_[container].gpus < count) {
    PutLinkedFirst(container, cost);
  }
  return count;
}

// Of the candidates that are as cheap as the last one wanted (with the topology policy: of all),
// moves those to the front that are linked best with each other: from each start greedily the one
// with most links to those chosen. Exact for groups, which is what boards have.
void Planner::PutLinkedFirst(size_t container, const std::array<int64_t, KRUX_MAX_GPUS>& cost) {
  auto& list = candidates_[container];
  const size_t wanted = containers_[container].gpus;
  const bool all = view_.pod->gpu_policy == KRUX_TOPOLOGY;
  const int64_t limit = cost[list[wanted - 1]];
  const auto begin = list.begin();
  const auto end = begin + candidate_count_[container];
  const auto fixed =
      all ? begin : std::find_if(begin, end, [&](uint8_t g) { return cost[g] >= limit; });
  const auto last =
      all ? end : std::find_if(fixed, end, [&](uint8_t g) { return cost[g] > limit; });
  std::array<uint8_t, KRUX_MAX_GPUS> best = list;
  int most = -1;
  for (auto start = fixed; start != last; ++start) {
    std::array<uint8_t, KRUX_MAX_GPUS> order = list;
    const auto at = [&](auto it) { return order.begin() + (it - begin); };
    std::rotate(at(fixed), at(start), at(start) + 1);
    int links = 0;
    const auto links_of = [&](uint8_t gpu, auto chosen_end) {
      int sum = 0;
      for (auto it = order.begin(); it != chosen_end; ++it) sum += Affinity(gpus_, *it, gpu);
      return sum;
    };
    for (auto next = at(fixed) + 1; next < order.begin() + wanted; ++next) {
      const auto pick = std::max_element(next, at(last), [&](uint8_t a, uint8_t b) {
        return links_of(a, next) < links_of(b, next);
      });
      links += links_of(*pick, next);
      std::rotate(next, pick, pick + 1);
    }
    if (links > most) {
      most = links;
      best = order;
    }
  }
  list = best;
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

int64_t Planner::Score() const { return node_policy_->node_score(view_, Peaks()); }

}  // namespace krux::engine
