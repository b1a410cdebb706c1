// The generator of Go's math/rand (before v2) with a given seed: the published experiments drew
// their pods with it, so that the same seeds must give the same order here.
//
// An additive lagged Fibonacci generator over 607 words, x[n] = x[n-607] + x[n-273] modulo 2^64.
// Go starts each seed from a state that its authors made by 7.8e12 steps; here that state is
// computed by raising x to that power modulo the generator's polynomial.
#ifndef KRUX_SCHEDULER_SIMULATE_GO_RANDOM_H_
#define KRUX_SCHEDULER_SIMULATE_GO_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace krux::simulate {

class GoRandom {
 public:
  explicit GoRandom(int32_t seed);

  int64_t Int63();
  int32_t Intn(int32_t n);  // rand.Intn for n below 2^31

  template <typename T>
  void Shuffle(std::vector<T>* items) {
    for (size_t i = items->size(); i > 1; --i) {
      std::swap((*items)[i - 1], (*items)[Below(static_cast<uint32_t>(i))]);
    }
  }

 private:
  static constexpr size_t kLength = 607;
  static constexpr size_t kTap = 273;

  uint64_t Next();
  uint32_t Below(uint32_t n);  // what rand.Shuffle uses

  std::array<uint64_t, kLength> state_;
  size_t tap_ = 0;
  size_t feed_ = kLength - kTap;
};

}  // namespace krux::simulate

#endif  // KRUX_SCHEDULER_SIMULATE_GO_RANDOM_H_
