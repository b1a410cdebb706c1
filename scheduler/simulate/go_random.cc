#include "scheduler/simulate/go_random.h"

namespace krux::simulate {
namespace {

constexpr size_t kLength = 607;
constexpr size_t kTap = 273;
constexpr uint64_t kSteps = 7800000000000;

using Words = std::array<uint64_t, kLength>;

// x[n+1] = 48271 x[n] modulo 2^31 - 1.
int32_t NextSeed(int32_t x) { return static_cast<int32_t>(int64_t{x} * 48271 % 0x7fffffff); }

// The words that a seed gives; the shifts differ between making Go's state and using it.
Words Seeded(int32_t seed, int high, int low) {
  Words words;
  int32_t x = seed;
  for (int i = 0; i < 20; ++i) x = NextSeed(x);
  for (uint64_t& word : words) {
    x = NextSeed(x);
    word = static_cast<uint64_t>(x) << high;
    x = NextSeed(x);
    word ^= static_cast<uint64_t>(x) << low;
    x = NextSeed(x);
    word ^= static_cast<uint64_t>(x);
  }
  return words;
}

// A polynomial modulo x^607 = x^334 + 1, coefficients modulo 2^64.
Words Reduce(std::array<uint64_t, 2 * kLength>* product) {
  for (size_t i = 2 * kLength - 1; i >= kLength; --i) {
    (*product)[i - kTap] += (*product)[i];
    (*product)[i - kLength] += (*product)[i];
  }
  Words out;
  for (size_t i = 0; i < kLength; ++i) out[i] = (*product)[i];
  return out;
}

Words Multiply(const Words& a, const Words& b) {
  std::array<uint64_t, 2 * kLength> product{};
  for (size_t i = 0; i < kLength; ++i) {
    for (size_t j = 0; j < kLength; ++j) product[i + j] += a[i] * b[j];
  }
  return Reduce(&product);
}

Words PowerOfX(uint64_t exponent) {
  Words power{};
  Words square{};
  power[0] = 1;
  square[1] = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) power = Multiply(power, square);
    square = Multiply(square, square);
  }
  return power;
}

// Word i of the state is output number (333 - i) modulo 607, counted from 607 before the first.
size_t PlaceOf(uint64_t output) { return (kLength + 333 - output % kLength) % kLength; }

Words MakeCookedState() {
  const Words start = Seeded(1, 20, 10);
  std::array<uint64_t, 2 * kLength> outputs;
  for (size_t n = 0; n < kLength; ++n) outputs[n] = start[PlaceOf(n)];
  for (size_t n = kLength; n < 2 * kLength; ++n) {
    outputs[n] = outputs[n - kLength] + outputs[n - kTap];
  }
  const Words power = PowerOfX(kSteps);
  Words cooked{};
  for (size_t n = 0; n < kLength; ++n) {
    uint64_t output = 0;
    for (size_t i = 0; i < kLength; ++i) output += power[i] * outputs[n + i];
    cooked[PlaceOf(kSteps + n)] = output;
  }
  return cooked;
}

}  // namespace

GoRandom::GoRandom(int32_t seed) {
  static const Words cooked = MakeCookedState();
  state_ = Seeded(seed, 40, 20);
  for (size_t i = 0; i < kLength; ++i) state_[i] ^= cooked[i];
}

uint64_t GoRandom::Next() {
  tap_ = (tap_ + kLength - 1) % kLength;
  feed_ = (feed_ + kLength - 1) % kLength;
  state_[feed_] += state_[tap_];
  return state_[feed_];
}

int64_t GoRandom::Int63() { return static_cast<int64_t>(Next() & 0x7fffffffffffffff); }

int32_t GoRandom::Intn(int32_t n) {
  const auto draw = [this] { return static_cast<int32_t>(Int63() >> 32); };
  if ((n & (n - 1)) == 0) return draw() & (n - 1);
  const auto most =
      static_cast<int32_t>(0x7fffffff - (uint32_t{1} << 31) % static_cast<uint32_t>(n));
  int32_t value = draw();
  while (value > most) value = draw();
  return value % n;
}

uint32_t GoRandom::Below(uint32_t n) {
  const auto draw = [this] { return static_cast<uint32_t>(Int63() >> 31); };
  uint64_t product = uint64_t{draw()} * n;
  const uint32_t least = (0U - n) % n;
  while (static_cast<uint32_t>(product) < least) product = uint64_t{draw()} * n;
  return static_cast<uint32_t>(product >> 32);
}

}  // namespace krux::simulate
