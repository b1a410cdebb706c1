// Whether a container holds more GPU memory than its limit, by what the driver says: the one figure
// that no tenant can write. Used by LimiterSessions about once a second.
//
// A plain value; thread rule: its owner's.
#ifndef KRUX_AGENT_OVER_LIMIT_H_
#define KRUX_AGENT_OVER_LIMIT_H_

#include <array>
#include <cstdint>

#include "common/units.h"
#include "protocol/pages.h"

namespace krux::agent {

// What to do with a container that holds more than its limit.
enum class OverLimitPolicy {
  kReport,  // say so
  kEnd,     // say so, and end its processes on that GPU
};

class OverLimit {
 public:
  enum class Verdict {
    kFine,
    kOver,   // since this look: to be said
    kStill,  // in the look before as well: to be ended, if that is the policy
  };

  // Growth that the driver makes without a call (code that is loaded late, its own tables) is in
  // the figures before the account has it: so much is forgiven.
  static constexpr uint64_t kForgiven = 64 * kMiB;

  // One look at one GPU of the container. REQUIRES: gpu < kMaxPageGpus.
  Verdict Look(uint32_t gpu, uint64_t listed_bytes, uint64_t limit_bytes) {
    const bool over = listed_bytes > limit_bytes && listed_bytes - limit_bytes > kForgiven;
    const bool before = over_[gpu];
    over_[gpu] = over;
    if (!over) return Verdict::kFine;
    return before ? Verdict::kStill : Verdict::kOver;
  }

 private:
  std::array<bool, kMaxPageGpus> over_{};
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_OVER_LIMIT_H_
