// The protocol of the published experiments, held against their published figures.
#include "scheduler/simulate/replay.h"

#include <gtest/gtest.h>

#include "scheduler/simulate/study.h"

namespace krux::simulate {
namespace {

const Traces& AllTraces() {
  static const Traces kTraces = *ReadTraces(KRUX_TRACES);
  return kTraces;
}

TEST(Traces, AreThoseOfTheExperiment) {
  const Traces& t = AllTraces();
  EXPECT_EQ(t.nodes.size(), 1213U);
  EXPECT_EQ(CapacityMilli(t.nodes), 6212 * kWholeGpu);
  EXPECT_EQ(t.traces.size(), 17U);
  EXPECT_EQ(t.traces.at("default").pods.size(), 8152U);
  EXPECT_EQ(t.default_times.size(), 8152U);
}

TEST(Arrivals, EndBeforeTheRatioIsPassed) {
  const Trace& trace = AllTraces().traces.at("default");
  const auto pods = Arrivals(trace, 42, 1.3, CapacityMilli(AllTraces().nodes));
  int64_t arrived = 0;
  for (const uint32_t pod : pods) {
    arrived += trace.requests[pod].gpus * trace.requests[pod].gpu_milli;
  }
  EXPECT_NEAR(static_cast<double>(arrived), 1.3 * 6212000, 8000);
}

double Unallocated(const std::string& trace, const std::string& policy) {
  StudyPlan plan;
  plan.traces = {trace};
  plan.policies = {policy};
  plan.seeds = 1;
  const auto cells = RunStudy(AllTraces(), plan, [](size_t, size_t) {});
  return cells->at({trace, policy}).unallocated[100];
}

// Seed 42: the authors' own run has 4.86 and 7.06; node names, which decide ties, are not known.
TEST(Replay, PublishedPoliciesComeOutAsPublished) {
  EXPECT_NEAR(Unallocated("default", "fgd"), 4.86, 0.3);
  EXPECT_NEAR(Unallocated("default", "bestfit"), 7.06, 0.3);
}

TEST(Replay, KruxPacksBetterThanWhatIsPublished) {
  EXPECT_LT(Unallocated("default", "fragmentation"), 4.5);
  EXPECT_LT(Unallocated("multigpu50", "fragmentation"), 2.91);
}

TEST(Replay, EndedPodsLeaveNothingBehind) {
  const Traces& t = AllTraces();
  const Trace& trace = t.traces.at("default");
  for (const std::string policy : {"fragmentation", "fgd"}) {
    Setting setting;
    setting.policy = policy;
    const auto chooser = MakeChooser(setting, t.nodes, trace);
    const auto pods = Arrivals(trace, 42, 1.0, CapacityMilli(t.nodes));
    // All pods of half the trace come and go; then the whole cluster is there for the others.
    std::vector<std::pair<const Request*, Place>> placed;
    for (size_t i = 0; i < pods.size() / 2; ++i) {
      Place place;
      const Request& request = trace.requests[pods[i]];
      if ((*chooser)->Add(request, &place)) placed.emplace_back(&request, place);
    }
    for (const auto& [request, place] : placed) (*chooser)->Remove(*request, place);
    const Outcome again = Inflate(t.nodes, trace, pods, chooser->get());
    const auto fresh = MakeChooser(setting, t.nodes, trace);
    const Outcome once = Inflate(t.nodes, trace, pods, fresh->get());
    EXPECT_DOUBLE_EQ(again.unallocated_at(95), once.unallocated_at(95)) << policy;
  }
}

}  // namespace
}  // namespace krux::simulate
