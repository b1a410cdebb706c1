#include "bench/gpu/tenant/workloads.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace krux::bench {
namespace {

struct Run {
  Card& card;
  const Plan& plan;
  Work work;
  CUstream stream;
  Span span;
};

void Wait(CUstream stream) { Check(cuStreamSynchronize(stream), "cuStreamSynchronize"); }

void HostWork(double us) {
  if (us <= 0) return;
  for (const double end = Now() + us / 1e6; Now() < end;) {
  }
}

std::string Json(const Plan& plan, const Meter& meter, const std::vector<double>& waits_ms) {
  char text[512];
  std::snprintf(text, sizeof text,
                "{\"kind\":\"%s\",\"rate\":%.4f,\"highest\":%.4f,\"gap_ms\":%.3f,\"n\":%zu,"
                "\"p50_ms\":%.6f,\"p99_ms\":%.6f,\"max_ms\":%.6f",
                plan.kind.c_str(), meter.Rate(), meter.HighestWindow(), meter.LongestGap() * 1e3,
                waits_ms.size(), Percentile(waits_ms, 0.5), Percentile(waits_ms, 0.99),
                Percentile(waits_ms, 1));
  std::string line = text;
  if (plan.slot_ms > 0) line += ",\"timeline\":" + meter.Timeline(plan.slot_ms / 1e3);
  return line + "}";
}

std::string Saturate(const Run& run) {
  std::vector<CUevent> done(run.plan.depth);
  for (CUevent& event : done) {
    Check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  }
  Meter meter(run.span);
  for (uint64_t batch = 0; !meter.IsOver(); ++batch) {
    CUevent event = done[batch % done.size()];
    if (batch >= done.size()) {
      Check(cuEventSynchronize(event), "cuEventSynchronize");
      meter.Add(uint64_t{run.plan.batch} * run.work.kernels);
    }
    for (unsigned i = 0; i < run.plan.batch; ++i) run.card.Launch(run.work, run.stream);
    Check(cuEventRecord(event, run.stream), "cuEventRecord");
  }
  for (CUevent event : done) Check(cuEventDestroy(event), "cuEventDestroy");
  return Json(run.plan, meter, {});
}

// Also "step": n launches to a wait, host work before each.
std::string Steps(const Run& run) {
  Meter meter(run.span);
  std::vector<double> waits;
  while (!meter.IsOver()) {
    const double begin = Now();
    for (unsigned i = 0; i < run.plan.n; ++i) {
      HostWork(run.plan.host_us);
      run.card.Launch(run.work, run.stream);
    }
    Wait(run.stream);
    meter.Add(1);
    waits.push_back((Now() - begin) * 1e3);
  }
  return Json(run.plan, meter, waits);
}

std::string Requests(const Run& run) {
  Meter meter(run.span);
  std::vector<double> waits;
  const double period = run.plan.period_ms / 1e3;
  for (double due = Now(); !meter.IsOver(); due = std::max(due + period, Now())) {
    WaitUntil(due);
    for (unsigned i = 0; i < run.plan.n; ++i) run.card.Launch(run.work, run.stream);
    Wait(run.stream);
    meter.Add(1);
    if (due >= run.span.begin) waits.push_back((Now() - due) * 1e3);
  }
  return Json(run.plan, meter, waits);
}

std::string Launches(const Run& run) {
  constexpr unsigned kBatch = 1000;
  Meter meter(run.span);
  std::vector<double> each;
  while (!meter.IsOver()) {
    const double begin = Now();
    for (unsigned i = 0; i < kBatch; ++i) run.card.Launch(run.work, run.stream);
    each.push_back((Now() - begin) * 1e3 / kBatch);
    Wait(run.stream);
    meter.Add(kBatch);
  }
  return Json(run.plan, meter, each);
}

}  // namespace

std::string RunPlan(Card& card, const Plan& plan) {
  const bool empty = plan.kind == "launch" || plan.kind == "launchsync";
  const Work work =
      empty ? card.MakeEmpty() : card.MakeWork(plan.iterations, plan.multiprocessors, plan.graph);
  const CUstream stream = card.Stream(plan.stream);
  card.Launch(work, stream);
  Wait(stream);
  WaitUntil(plan.start);
  const double begin = Now() + plan.settle;
  const Run run{card, plan, work, stream, {begin, begin + plan.seconds}};
  std::string line;
  if (plan.kind == "saturate") {
    line = Saturate(run);
  } else if (plan.kind == "sync" || plan.kind == "step" || plan.kind == "launchsync") {
    line = Steps(run);
  } else if (plan.kind == "request") {
    line = Requests(run);
  } else if (plan.kind == "launch") {
    line = Launches(run);
  } else {
    std::fprintf(stderr, "krux-bench-tenant: no workload '%s'\n", plan.kind.c_str());
    std::exit(2);
  }
  Wait(stream);
  if (work.graph != nullptr) Check(cuGraphExecDestroy(work.graph), "cuGraphExecDestroy");
  return line;
}

}  // namespace krux::bench
