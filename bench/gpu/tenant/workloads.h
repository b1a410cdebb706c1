// What a tenant can do with the card, each for a span of time.
//   saturate    back to back: batches of launches, `depth` of them in flight
//   sync        one launch, wait, `host_us` of host work, again
//   step        `n` launches with `host_us` of host work before each, then a wait: a decoder's step
//   request     `n` launches each `period_ms`: how long from due to done
//   launch      an empty kernel as often as the host can
//   launchsync  an empty kernel and a wait
// Thread rule: one thread.
#ifndef KRUX_BENCH_GPU_TENANT_WORKLOADS_H_
#define KRUX_BENCH_GPU_TENANT_WORKLOADS_H_

#include <string>

#include "bench/gpu/tenant/card.h"
#include "bench/gpu/tenant/meter.h"

namespace krux::bench {

struct Plan {
  std::string kind = "saturate";
  StreamKind stream = StreamKind::kOwn;
  unsigned iterations = 1000;
  unsigned multiprocessors = 0;
  unsigned graph = 0;  // kernels in a graph; 0: no graph
  unsigned batch = 1;
  unsigned depth = 2;
  unsigned n = 1;
  double host_us = 0;
  double period_ms = 50;
  double start = 0;   // when to begin; 0: at once
  double settle = 0;  // seconds before the measured span
  double seconds = 1;
  double slot_ms = 0;  // > 0: the timeline is reported too
};

// Runs the plan and returns its figures as one line of JSON. Unknown kinds end the program.
std::string RunPlan(Card& card, const Plan& plan);

}  // namespace krux::bench

#endif  // KRUX_BENCH_GPU_TENANT_WORKLOADS_H_
