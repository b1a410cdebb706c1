#include "limiter/compute/cost_model.h"

#include <bit>

#include "limiter/life/table.h"

namespace krux::limiter {

uint64_t CostModel::KeyOf(uint64_t function, uint64_t size) {
  const uint64_t size_class = static_cast<uint64_t>(std::bit_width(size));
  return MixBits(function ^ (size_class << 56)) | 1;
}

void CostModel::Init() {
  if (costs_ == nullptr) costs_ = static_cast<Cost*>(MapPages(kCosts * sizeof(Cost)));
}

Cost& CostModel::FindSlowly(uint64_t key) {
  if (costs_ == nullptr) return overflow_;
  size_t i = key >> 1 & (kCosts - 1);
  for (size_t probe = 0; probe < kProbes; ++probe, i = (i + 1) & (kCosts - 1)) {
    uint64_t stored = costs_[i].key.load(std::memory_order_relaxed);
    if (stored == key) return costs_[i];
    if (stored != 0) continue;
    if (costs_[i].key.compare_exchange_strong(stored, key, std::memory_order_relaxed) ||
        stored == key) {
      return costs_[i];
    }
  }
  return overflow_;
}

void CostModel::Learn(Cost& cost, Ticks ticks_each, Evidence evidence) {
  const Ticks old = cost.ticks.load(std::memory_order_relaxed);
  if (!cost.known.load(std::memory_order_relaxed)) {
    cost.ticks.store(ticks_each, std::memory_order_relaxed);
    cost.known.store(true, std::memory_order_relaxed);
    return;
  }
  if (frozen_.load(std::memory_order_relaxed)) return;
  if (ticks_each > old) {
    // A bound from above says nothing about a smaller cost.
    if (evidence == Evidence::kUpperBound) return;
    cost.ticks.store(old + (ticks_each - old) / 4 + 1, std::memory_order_relaxed);
  } else {
    cost.ticks.store(old - (old - ticks_each) / 4, std::memory_order_relaxed);
  }
}

void CostModel::ForgetAfterFork() {
  costs_ = nullptr;
  frozen_.store(false, std::memory_order_relaxed);
}

}  // namespace krux::limiter
