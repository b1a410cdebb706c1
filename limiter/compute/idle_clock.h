// For how long a lease has had no work, by looks that may be far apart.
// Who uses it: Keeper, one for each GPU. Thread rule: a plain value.
#ifndef KRUX_LIMITER_COMPUTE_IDLE_CLOCK_H_
#define KRUX_LIMITER_COMPUTE_IDLE_CLOCK_H_

#include <algorithm>
#include <cstdint>

#include "limiter/life/time.h"

namespace krux::limiter {

class IdleClock {
 public:
  // What is seen now: whether all work is done, how many launches there were so far, and when the
  // last work that is known of ended. A step of 400 us between two looks is no idle time.
  Ticks Look(bool finished, uint64_t issued, Ticks last_progress, Ticks now) {
    if (!finished || issued != issued_ || busy_until_ == 0) busy_until_ = now;
    issued_ = issued;
    busy_until_ = std::clamp(last_progress, busy_until_, std::max(now, busy_until_));
    return now - std::min(now, busy_until_);
  }
  uint64_t issued() const { return issued_; }

 private:
  uint64_t issued_ = 0;  // launches on all the GPU's streams
  Ticks busy_until_ = 0;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_COMPUTE_IDLE_CLOCK_H_
