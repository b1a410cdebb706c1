// How much of the last second and of the last minute a tenant used: rings of time buckets.
// Who uses it: Arbiter, for what people are shown. Thread rule: a plain value; `now` as argument.
#ifndef KRUX_AGENT_USAGE_METER_H_
#define KRUX_AGENT_USAGE_METER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "common/clock.h"

namespace krux::agent {

class UsageMeter {
 public:
  // Counts from `begin` on: before a window is full, the share is of the time since then.
  explicit UsageMeter(Nanos begin = 0) : begin_(begin) {}

  // The GPU was used from `from` to `to`. Spans come in order of time.
  void Add(Nanos from, Nanos to) {
    second_.Add(from, to);
    minute_.Add(from, to);
  }
  // Used part of the time that the window covers, 0 .. 1.
  double LastSecond(Nanos now) { return second_.Share(begin_, now); }
  double LastMinute(Nanos now) { return minute_.Share(begin_, now); }

 private:
  template <size_t kBuckets, Nanos kWidth>
  class Ring {
   public:
    void Add(Nanos from, Nanos to) {
      from = std::max(from, to - static_cast<Nanos>(kBuckets) * kWidth);
      while (from < to) {
        const Nanos index = from / kWidth;
        const Nanos until = std::min(to, (index + 1) * kWidth);
        MoveTo(index);
        // A span older than the newest bucket cannot be placed any more; it counts as now.
        used_[static_cast<size_t>(last_ % static_cast<Nanos>(kBuckets))] += until - from;
        from = until;
      }
    }

    double Share(Nanos begin, Nanos now) {
      MoveTo(now / kWidth);
      Nanos sum = 0;
      for (const Nanos used : used_) sum += used;
      const Nanos window = static_cast<Nanos>(kBuckets - 1) * kWidth + now % kWidth;
      const Nanos covered = std::min(window, now - begin);
      return covered <= 0 ? 0 : static_cast<double>(sum) / static_cast<double>(covered);
    }

   private:
    void MoveTo(Nanos index) {
      if (index - last_ >= static_cast<Nanos>(kBuckets)) used_.fill(0);
      for (last_ = std::max(last_, index - static_cast<Nanos>(kBuckets)); last_ < index;) {
        used_[static_cast<size_t>(++last_ % static_cast<Nanos>(kBuckets))] = 0;
      }
    }

    std::array<Nanos, kBuckets> used_{};
    Nanos last_ = 0;
  };

  Nanos begin_;
  Ring<21, 50 * kMillisecond> second_;
  Ring<61, kSecond> minute_;
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_USAGE_METER_H_
