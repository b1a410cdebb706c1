// Who places pods in a replay: Krux's engine with one of its policies, or one of the published
// policies that it is compared with. A chooser keeps the cluster's state for itself.
#ifndef KRUX_SCHEDULER_SIMULATE_CHOOSER_H_
#define KRUX_SCHEDULER_SIMULATE_CHOOSER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/result.h"
#include "scheduler/simulate/trace.h"

namespace krux::simulate {

// How the choice is disturbed: what kube-scheduler does when nobody stops it.
struct Disturbance {
  bool random_ties = false;  // among equals one at random instead of the first
  double looked_at = 1;      // part of the nodes that are looked at, from a rotating start
  uint64_t seed = 0;
};

// Where a pod went.
struct Place {
  uint32_t node = 0;
  std::vector<uint32_t> gpus;
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  // Places the pod and remembers it; false = it fits nowhere.
  virtual bool Add(const Request& request, Place* place) = 0;
  // The pod has ended.
  virtual void Remove(const Request& request, const Place& place) = 0;
};

enum class Knowledge {
  kWholeTrace,  // the published protocol: the classes of the whole trace are known beforehand
  kLearnt,      // only pods that have arrived, and what Krux ships with
};

struct Setting {
  std::string policy;  // see PolicyNames()
  Knowledge knowledge = Knowledge::kWholeTrace;
  Disturbance disturbance;
};

const std::vector<std::string>& PolicyNames();

// `nodes` is the cluster; `models` the number of its models.
Result<std::unique_ptr<Chooser>> MakeChooser(const Setting& setting,
                                             const std::vector<NodeShape>& nodes,
                                             const Trace& trace);

}  // namespace krux::simulate

#endif  // KRUX_SCHEDULER_SIMULATE_CHOOSER_H_
