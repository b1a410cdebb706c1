#include "scheduler/simulate/study.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

namespace krux::simulate {
namespace {

constexpr int32_t kFirstSeed = 42;
constexpr double kRatio = 1.3;

struct Job {
  const Trace* trace;
  std::string policy;
  int32_t seed;
};

void AddTo(const Outcome& outcome, double weight, Cell* cell) {
  for (size_t i = 0; i < outcome.allocated.size(); ++i) {
    cell->unallocated[i] += weight * outcome.unallocated_at(i);
  }
  for (size_t i = 0; i < kSizes; ++i) {
    cell->asked[i] += weight * outcome.asked[i];
    cell->failed[i] += weight * outcome.failed[i];
  }
}

Result<std::vector<Job>> ListJobs(const Traces& traces, const StudyPlan& plan) {
  std::vector<Job> jobs;
  for (const std::string& name : plan.traces) {
    const auto found = traces.traces.find(name);
    if (found == traces.traces.end()) {
      std::string names;
      for (const auto& [known, trace] : traces.traces) names += " " + known;
      return Error(ErrorCode::kNotFound,
                   "trace '" + name + "' is not known: use all, or one of" + names);
    }
    for (const std::string& policy : plan.policies) {
      Setting setting = plan.setting;
      setting.policy = policy;
      KRUX_RETURN_IF_ERROR(MakeChooser(setting, {}, found->second));
      for (int i = 0; i < plan.seeds; ++i) jobs.push_back({&found->second, policy, kFirstSeed + i});
    }
  }
  return jobs;
}

}  // namespace

Result<Cells> RunStudy(const Traces& traces, const StudyPlan& plan,
                       const std::function<void(size_t done, size_t all)>& progress) {
  KRUX_ASSIGN_OR_RETURN(const std::vector<Job> jobs, ListJobs(traces, plan));
  std::vector<NodeShape> nodes = traces.nodes;
  if (plan.node_order != 0) {
    std::shuffle(nodes.begin(), nodes.end(),
                 std::mt19937_64(static_cast<uint64_t>(plan.node_order)));
  }
  const int64_t capacity = CapacityMilli(nodes);
  Cells cells;
  std::mutex mutex;  // guards cells and done
  size_t done = 0;
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      const Job& job = jobs[i];
      Setting setting = plan.setting;
      setting.policy = job.policy;
      setting.disturbance.seed = static_cast<uint64_t>(job.seed);
      const auto chooser = MakeChooser(setting, nodes, *job.trace);
      const auto pods = Arrivals(*job.trace, job.seed, kRatio, capacity);
      const Outcome outcome = Inflate(nodes, *job.trace, pods, chooser->get());
      const std::lock_guard<std::mutex> lock(mutex);
      AddTo(outcome, 1.0 / plan.seeds, &cells[{job.trace->name, job.policy}]);
      progress(++done, jobs.size());
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(plan.jobs, 1U); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return cells;
}

}  // namespace krux::simulate
