#include "agent/time_windows.h"

#include <algorithm>

namespace krux::agent {
namespace {

constexpr double kPartOfNone = 0.01;

// The part of the cycle that a share gets before anything is scaled to fit.
double FirstPart(const WindowShare& share) {
  if (share.policy == ComputePolicy::kNone) return kPartOfNone;
  if (share.policy == ComputePolicy::kFixed) return share.cores * 0.01;
  return share.weight;
}

}  // namespace

std::vector<TimeWindow> ComputeWindows(const std::vector<WindowShare>& shares) {
  double elastic = 0;
  double rigid = 0;
  for (const auto& share : shares) {
    (share.policy == ComputePolicy::kBalance ? elastic : rigid) += FirstPart(share);
  }
  // Too many promises shrink all alike; room that is left goes to `balance`.
  const double scale_all = std::min(1.0, 1.0 / std::max(elastic + rigid, 1e-9));
  const double scale_elastic =
      elastic + rigid < 1 ? (1 - rigid) / std::max(elastic, 1e-9) : scale_all;
  std::vector<TimeWindow> windows;
  Nanos begin = 0;
  for (const auto& share : shares) {
    const double scale = share.policy == ComputePolicy::kBalance ? scale_elastic : scale_all;
    const auto part =
        static_cast<Nanos>(FirstPart(share) * scale * static_cast<double>(kWindowCycle));
    windows.push_back({begin, part - std::min(kWindowGuard, part / 2)});
    begin += part;
  }
  return windows;
}

}  // namespace krux::agent
