// Time in TSC ticks, the unit of the limits page. Header-only, thread-safe.
#ifndef KRUX_LIMITER_LIFE_TIME_H_
#define KRUX_LIMITER_LIFE_TIME_H_

#include <time.h>
#include <x86intrin.h>

#include <cerrno>
#include <cstdint>

namespace krux::limiter {

using Ticks = uint64_t;

__extension__ typedef unsigned __int128 WideTicks;  // products of ticks and nanoseconds

inline Ticks TicksNow() { return __rdtsc(); }

// Ticks <-> nanoseconds at the rate that the limits page names.
class TickRate {
 public:
  explicit TickRate(uint64_t per_second) : per_second_(per_second) {}
  Ticks FromNanos(uint64_t nanos) const {
    return static_cast<Ticks>(static_cast<WideTicks>(nanos) * per_second_ / 1000000000U);
  }
  uint64_t ToNanos(Ticks ticks) const {
    return static_cast<uint64_t>(static_cast<WideTicks>(ticks) * 1000000000U / per_second_);
  }

 private:
  uint64_t per_second_;
};

// Sleeps; a signal may end it early. errno of the application is left as it was.
inline void SleepNanos(uint64_t nanos) {
  const int saved = errno;
  const timespec duration{static_cast<time_t>(nanos / 1000000000U),
                          static_cast<long>(nanos % 1000000000U)};
  nanosleep(&duration, nullptr);
  errno = saved;
}

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_TIME_H_
