#include "sim/state/share.h"

#include <bit>

namespace krux::sim {
namespace {

constexpr Nanos kTick = 64;  // unit of both halves of the clock word
constexpr Nanos kWrap = (Nanos{1} << 32) * kTick;
__extension__ typedef unsigned __int128 Wide;

Wide Pack(uint64_t busy, uint64_t clock) { return (static_cast<Wide>(clock) << 64) | busy; }

bool CompareAndSwap(ShareWord* word, Wide expected, Wide desired) {
  return __sync_bool_compare_and_swap(reinterpret_cast<Wide*>(word), expected, desired);
}

Wide Load(ShareWord* word) {
  return __sync_val_compare_and_swap(reinterpret_cast<Wide*>(word), Wide{0}, Wide{0});
}

uint32_t TimeHalf(Wide word) { return static_cast<uint32_t>(word >> 64); }
uint32_t ServiceHalf(Wide word) { return static_cast<uint32_t>(word >> 96); }
uint64_t BusyOf(Wide word) { return static_cast<uint64_t>(word); }

// Time from the last change until `now`. A change that another process dated up to a second after
// our `now` gives a small negative age; with nobody on the card the date has no meaning.
Nanos AgeOf(Wide word, Nanos now) {
  constexpr uint32_t kSecondInTicks = kSecond / kTick;
  if (BusyOf(word) == 0) return 0;
  const auto ticks = static_cast<uint32_t>(static_cast<uint64_t>(now / kTick));
  const uint32_t age = ticks - TimeHalf(word);
  if (age > UINT32_MAX - kSecondInTicks) return -static_cast<Nanos>(UINT32_MAX - age + 1) * kTick;
  return static_cast<Nanos>(age) * kTick;
}

Nanos ServiceSince(Nanos age, double rate) {
  return age <= 0 ? 0 : static_cast<Nanos>(static_cast<double>(age) * rate);
}

}  // namespace

double CardShare::RateOf(uint64_t busy) const {
  const int n = std::popcount(busy);
  if (n == 0) return 0;
  if (n == 1) return 1;
  return static_cast<double>(card_->switch_permille) / 1000.0 / n;
}

CardShare::Sample CardShare::Read(Nanos now) const {
  const Wide word = Load(&card_->share);
  Sample sample;
  sample.busy = BusyOf(word);
  sample.rate = RateOf(sample.busy);
  sample.service =
      static_cast<Nanos>(ServiceHalf(word)) * kTick + ServiceSince(AgeOf(word, now), sample.rate);
  return sample;
}

Nanos CardShare::ServiceBetween(const Sample& from, const Sample& to) {
  const Nanos delta = ((to.service - from.service) % kWrap + kWrap) % kWrap;
  return delta > kWrap / 2 ? 0 : delta;
}

Nanos CardShare::Change(uint64_t set, uint64_t clear, Nanos at) {
  while (true) {
    const Wide word = Load(&card_->share);
    const Nanos age = AgeOf(word, at);
    const Nanos when = age < 0 ? at - age : at;
    const Nanos gained = ServiceSince(age, RateOf(BusyOf(word)));
    const auto service = static_cast<uint32_t>(ServiceHalf(word) + (gained + kTick / 2) / kTick);
    const auto time = static_cast<uint32_t>(static_cast<uint64_t>(when / kTick));
    const uint64_t busy = (BusyOf(word) | set) & ~clear;
    if (CompareAndSwap(&card_->share, word, Pack(busy, (uint64_t{service} << 32) | time))) {
      return when;
    }
  }
}

Nanos CardShare::Join(uint32_t seat, Nanos at) { return Change(uint64_t{1} << seat, 0, at); }

Nanos CardShare::Leave(uint32_t seat, Nanos at) { return Change(0, uint64_t{1} << seat, at); }

void CardShare::Refresh(Nanos now) { Change(0, 0, now); }

}  // namespace krux::sim
