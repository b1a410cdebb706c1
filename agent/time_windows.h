// Disjoint windows on the TSC, published with the leases: when the agent is gone, each tenant of a
// card launches in its own window of a common cycle, so that shares stay near what was promised
// although nobody arbitrates (protocol/pages.h). Unsynchronised duty cycles would not do that.
// Who calls it: LeaseCard. Thread rule: a pure function.
#ifndef KRUX_AGENT_TIME_WINDOWS_H_
#define KRUX_AGENT_TIME_WINDOWS_H_

#include <cstdint>
#include <vector>

#include "common/clock.h"
#include "protocol/grant.h"

namespace krux::agent {

struct WindowShare {
  double weight = 0;  // Arbiter::View::weight
  uint32_t cores = 0;
  ComputePolicy policy = ComputePolicy::kBalance;
};

struct TimeWindow {
  Nanos begin = 0;
  Nanos width = 0;
};

constexpr Nanos kWindowCycle = 80 * kMillisecond;
// Limiters begin nothing that they expect to reach beyond their window. What they have in flight is
// bounded to some 4 ms, so a quarter of that in error stays inside the guard.
constexpr Nanos kWindowGuard = 1 * kMillisecond;

// One window for each share, in order, inside [0, kWindowCycle). `fixed` gets its cores and no
// more; `none` a little; the others the rest, in proportion to their weights. With so many tenants
// that a guard would take more than half of a part, the guard shrinks.
std::vector<TimeWindow> ComputeWindows(const std::vector<WindowShare>& shares);

}  // namespace krux::agent

#endif  // KRUX_AGENT_TIME_WINDOWS_H_
