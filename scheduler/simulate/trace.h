// The traces of the packing benchmark: nodes, requests, and the order in which pods arrive. Read
// from the data folder (data/README.md); used by the command line and by tests.
#ifndef KRUX_SCHEDULER_SIMULATE_TRACE_H_
#define KRUX_SCHEDULER_SIMULATE_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/result.h"

namespace krux::simulate {

// One GPU's share is counted in 1/1000, as the traces have it.
constexpr int64_t kWholeGpu = 1000;

struct NodeShape {
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  int gpus = 0;
  uint32_t model = 0;  // index into Traces::models
};

struct Request {
  int64_t cpu_milli = 0;
  int64_t memory_mib = 0;
  int gpus = 0;
  int64_t gpu_milli = 0;  // of each GPU
  uint64_t models = 0;    // allowed, bit = index into Traces::models; 0 = any
};

struct Trace {
  std::string name;
  std::vector<Request> requests;
  std::vector<uint32_t> pods;  // request of each pod, in name order
};

struct Lifetime {
  uint32_t request = 0;
  int64_t created_s = 0;
  int64_t lifetime_s = 0;
};

// Unallocated part of all GPUs in percent, mean over the seeds.
struct Published {
  double at_100 = 0;
  double at_130 = 0;
};

struct Traces {
  std::vector<std::string> models;
  std::vector<NodeShape> nodes;
  std::map<std::string, Trace> traces;
  std::vector<Lifetime> default_times;
  std::map<std::pair<std::string, std::string>, Published> published;  // by trace and policy
};

Result<Traces> ReadTraces(const std::string& folder);

// The published inflation: pods in the seed's order, then pods drawn again, until the next one
// would pass `ratio` times the capacity.
std::vector<uint32_t> Arrivals(const Trace& trace, int32_t seed, double ratio,
                               int64_t capacity_milli);

int64_t CapacityMilli(const std::vector<NodeShape>& nodes);

}  // namespace krux::simulate

#endif  // KRUX_SCHEDULER_SIMULATE_TRACE_H_
