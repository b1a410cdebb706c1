#include "scheduler/engine/history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace krux::engine {
namespace {

constexpr uint64_t kRebuildEvery = 250;
constexpr std::array<uint64_t, 5> kFirstRebuilds = {10, 25, 50, 100, 175};

auto Key(const krux_container& c) {
  return std::make_tuple(c.memory_mib, c.memory_percent, c.cores, c.gpus);
}

uint64_t HashOf(const krux_container& c, uint64_t cpu_milli, uint64_t models) {
  uint64_t hash = 0;
  for (const uint64_t word : {c.memory_mib, uint64_t{c.memory_percent} << 32 | c.cores,
                              uint64_t{c.gpus}, cpu_milli, models}) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

krux_container ContainerOf(const Typical& t) {
  krux_container c{};
  c.memory_mib = t.memory_mib;
  const bool part = t.memory_mib == 0 && !t.exclusive;
  c.memory_percent = part ? static_cast<uint32_t>(std::lround(t.memory_share * 100)) : 0;
  c.cores = static_cast<uint32_t>(std::lround(t.cores_share * 100));
  c.gpus = t.gpus;
  return c;
}

}  // namespace

History::History() {
  const Mix shipped = ShippedMix();
  for (const Typical& t : shipped.classes()) {
    Find(ContainerOf(t), t.cpu_milli, t.models).weight = t.weight * kPriorPods;
  }
}

History::Entry& History::Find(const krux_container& c, uint64_t cpu_milli, uint64_t models) {
  const uint64_t hash = HashOf(c, cpu_milli, models);
  const auto found = entry_of_.find(hash);
  if (found != entry_of_.end()) {
    Entry& entry = entries_[found->second];
    const bool same =
        entry.cpu_milli == cpu_milli && entry.models == models && Key(entry.container) == Key(c);
    if (!same) entry = {c, cpu_milli, models, 0};  // two classes of one hash: the later one counts
    return entry;
  }
  size_t place = entries_.size();
  if (place < kMaxClasses) {
    entries_.push_back({c, cpu_milli, models, 0});
  } else {
    const auto least =
        std::min_element(entries_.begin(), entries_.end(),
                         [](const Entry& a, const Entry& b) { return a.weight < b.weight; });
    place = static_cast<size_t>(least - entries_.begin());
    entry_of_.erase(HashOf(least->container, least->cpu_milli, least->models));
    *least = {c, cpu_milli, models, 0};
  }
  entry_of_[hash] = place;
  return entries_[place];
}

bool History::Add(const krux_container* container, uint64_t cpu_milli, uint64_t models) {
  const krux_container c = container == nullptr ? krux_container{} : *container;
  Find(c, cpu_milli, models).weight += next_weight_;
  // Forward decay: instead of shrinking the past, each newcomer weighs more.
  next_weight_ *= std::exp2(1 / kHalfLife);
  if (next_weight_ > 1e12) {
    for (Entry& e : entries_) e.weight /= next_weight_;
    next_weight_ = 1;
  }
  ++pods_;
  return pods_ % kRebuildEvery == 0 ||
         std::find(kFirstRebuilds.begin(), kFirstRebuilds.end(), pods_) != kFirstRebuilds.end();
}

Mix History::MakeMix(const GpusOfModel& gpus) const {
  std::vector<Typical> classes;
  classes.reserve(entries_.size());
  for (const Entry& e : entries_) {
    classes.push_back(MakeTypical(e.container, e.cpu_milli, e.models, e.weight));
  }
  return {std::move(classes), gpus};
}

}  // namespace krux::engine
