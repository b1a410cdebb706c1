// How much GPU time a launch is expected to take, learned per function and size class from the
// times at which markers were seen. Nothing is charged by it: it only bounds the work in flight,
// spaces the markers, and tells the keeper when to look.
//
// Thread-safe without locks: races lose a sample, nothing else.
#ifndef KRUX_LIMITER_COMPUTE_COST_MODEL_H_
#define KRUX_LIMITER_COMPUTE_COST_MODEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "limiter/life/time.h"

namespace krux::limiter {

struct Cost {
  std::atomic<uint64_t> key{0};
  std::atomic<Ticks> ticks{0};
  std::atomic<bool> known{false};
};

// How a duration was found.
enum class Evidence {
  kExact,       // the stream was busy all the time
  kUpperBound,  // it may have been idle for a part of it
};

class CostModel {
 public:
  // Before the first Find. Without memory for the table all keys share one entry.
  void Init();
  // Never fails: keys beyond the table share one entry.
  Cost& Find(uint64_t key) {
    if (__builtin_expect(costs_ != nullptr, 1)) {
      Cost& likely = costs_[key >> 1 & (kCosts - 1)];
      if (__builtin_expect(likely.key.load(std::memory_order_relaxed) == key, 1)) return likely;
    }
    return FindSlowly(key);
  }
  // While frozen, known costs stay: nobody looks often enough to know when something was done.
  void Freeze(bool frozen) { frozen_.store(frozen, std::memory_order_relaxed); }
  void Learn(Cost& cost, Ticks ticks_each, Evidence evidence);
  void ForgetAfterFork();

  // The size class keeps short and long launches of one function apart.
  static uint64_t KeyOf(uint64_t function, uint64_t size);

 private:
  static constexpr size_t kCosts = 16384;  // a power of two
  static constexpr size_t kProbes = 16;

  Cost& FindSlowly(uint64_t key);

  Cost* costs_ = nullptr;
  std::atomic<bool> frozen_{false};
  Cost overflow_;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_COMPUTE_COST_MODEL_H_
