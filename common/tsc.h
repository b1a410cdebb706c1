// The time stamp counter: the clock that agent and limiters share without a system call. Leases
// and windows in the pages are given in its ticks (protocol/pages.h).
// Thread rule: pure functions. Header-only: the limiter uses ReadTsc.
#ifndef KRUX_COMMON_TSC_H_
#define KRUX_COMMON_TSC_H_

#include <x86intrin.h>

#include <cstdint>

#include "common/clock.h"

namespace krux {

inline uint64_t ReadTsc() { return __rdtsc(); }

// One reading of both clocks that belong together. The pair with the shortest distance between
// two counter readings of a few tries is taken: a thread can lose the processor between them.
struct TscReading {
  Nanos monotonic = 0;
  uint64_t tsc = 0;
};

inline TscReading ReadBothClocks() {
  TscReading best;
  uint64_t best_distance = UINT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = ReadTsc();
    const Nanos monotonic = MonotonicNow();
    const uint64_t distance = ReadTsc() - before;
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = TscReading{monotonic, before + distance / 2};
  }
  return best;
}

// Ticks per second, from two readings at least 20 ms apart: good to some parts in a million. It
// blocks that long; daemons call it once at their start.
inline uint64_t MeasureTscPerSecond() {
  const TscReading first = ReadBothClocks();
  const timespec pause{0, static_cast<long>(20 * kMillisecond)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
  TscReading last = ReadBothClocks();
  while (last.monotonic - first.monotonic < 20 * kMillisecond) last = ReadBothClocks();
  const auto ticks = static_cast<double>(last.tsc - first.tsc);
  return static_cast<uint64_t>(ticks * 1e9 / static_cast<double>(last.monotonic - first.monotonic));
}

// A span of time in ticks. Negative spans are 0.
inline uint64_t NanosToTicks(Nanos span, uint64_t tsc_per_second) {
  if (span <= 0) return 0;
  return static_cast<uint64_t>(static_cast<double>(span) * 1e-9 *
                               static_cast<double>(tsc_per_second));
}

}  // namespace krux

#endif  // KRUX_COMMON_TSC_H_
