// Time as an argument. Policies and state machines never read a clock: they are given `now`.
// Processes that need one take a Clock, so that tests move time by hand. Header-only.
#ifndef KRUX_COMMON_CLOCK_H_
#define KRUX_COMMON_CLOCK_H_

#include <time.h>

#include <cstdint>
#include <functional>

namespace krux {

using Nanos = int64_t;  // nanoseconds on CLOCK_MONOTONIC unless a name says otherwise

constexpr Nanos kMicrosecond = 1000;
constexpr Nanos kMillisecond = 1000 * kMicrosecond;
constexpr Nanos kSecond = 1000 * kMillisecond;

using Clock = std::function<Nanos()>;

inline Nanos MonotonicNow() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<Nanos>(ts.tv_sec) * kSecond + ts.tv_nsec;
}

}  // namespace krux

#endif  // KRUX_COMMON_CLOCK_H_
