#include "scheduler/simulate/replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

namespace krux::simulate {
namespace {

SizeClass SizeOf(const Request& request) {
  if (request.gpus >= 8) return kEightGpus;
  if (request.gpus > 1) return kSeveralGpus;
  return request.gpu_milli >= kWholeGpu ? kOneGpu : kShared;
}

int64_t DemandMilli(const Request& request) { return request.gpus * request.gpu_milli; }

}  // namespace

Outcome Inflate(const std::vector<NodeShape>& nodes, const Trace& trace,
                const std::vector<uint32_t>& pods, Chooser* chooser) {
  Outcome outcome;
  std::array<double, Outcome::kMostPercent> sums{};
  std::array<int, Outcome::kMostPercent> samples{};
  const auto capacity = static_cast<double>(CapacityMilli(nodes));
  int64_t arrived = 0;
  int64_t placed = 0;
  for (const uint32_t pod : pods) {
    const Request& request = trace.requests[pod];
    Place place;
    const bool fits = chooser->Add(request, &place);
    arrived += DemandMilli(request);
    if (fits) placed += DemandMilli(request);
    const double part = static_cast<double>(arrived) / capacity;
    if (part <= 1 && request.gpus > 0) {
      const double gpus = static_cast<double>(DemandMilli(request)) / kWholeGpu;
      outcome.asked[SizeOf(request)] += gpus;
      if (!fits) outcome.failed[SizeOf(request)] += gpus;
    }
    const auto column = static_cast<size_t>(std::lround(part * 100));
    if (column >= Outcome::kMostPercent) continue;
    sums[column] += static_cast<double>(placed) / capacity * 100;
    ++samples[column];
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    outcome.allocated[i] =
        samples[i] > 0 ? sums[i] / samples[i] : std::numeric_limits<double>::quiet_NaN();
  }
  return outcome;
}

Departures ReplayTimes(const std::vector<NodeShape>& nodes, const Trace& trace,
                       const std::vector<Lifetime>& lifetimes, double speed, Chooser* chooser) {
  struct Leaving {
    double at;
    const Request* request;
    Place place;
    bool operator<(const Leaving& other) const { return at > other.at; }  // earliest first
  };
  std::vector<const Lifetime*> order;
  order.reserve(lifetimes.size());
  for (const Lifetime& life : lifetimes) order.push_back(&life);
  std::sort(order.begin(), order.end(), [](const Lifetime* a, const Lifetime* b) {
    return a->created_s != b->created_s ? a->created_s < b->created_s : a < b;
  });
  if (order.empty()) return {};
  std::priority_queue<Leaving> leaving;
  double now = 0;
  double allocated = 0;  // 1/1000 GPU
  double area = 0;
  double asked = 0;
  double failed = 0;
  double failed_pods = 0;
  const size_t middle = order.size() / 2;
  const double begin = static_cast<double>(order[middle]->created_s) / speed;
  const auto advance = [&](double to) {
    if (to > begin) area += allocated * (to - std::max(now, begin));
    now = to;
  };
  for (const Lifetime* life : order) {
    const double at = static_cast<double>(life->created_s) / speed;
    while (!leaving.empty() && leaving.top().at <= at) {
      advance(leaving.top().at);
      chooser->Remove(*leaving.top().request, leaving.top().place);
      allocated -= static_cast<double>(DemandMilli(*leaving.top().request));
      leaving.pop();
    }
    advance(at);
    const Request& request = trace.requests[life->request];
    const auto demand = static_cast<double>(DemandMilli(request));
    asked += demand;
    Place place;
    if (!chooser->Add(request, &place)) {
      failed += demand;
      ++failed_pods;
      continue;
    }
    allocated += demand;
    leaving.push({at + static_cast<double>(life->lifetime_s), &request, place});
  }
  Departures out;
  if (now > begin) {
    out.mean_allocated = area / (now - begin) / static_cast<double>(CapacityMilli(nodes)) * 100;
  }
  out.failed_pods = failed_pods / static_cast<double>(order.size()) * 100;
  out.failed_demand = asked > 0 ? failed / asked * 100 : 0;
  return out;
}

}  // namespace krux::simulate
