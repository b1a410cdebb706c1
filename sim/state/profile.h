// Facts of card models, as data. A new model is a new row in profile.cc.
#ifndef KRUX_SIM_STATE_PROFILE_H_
#define KRUX_SIM_STATE_PROFILE_H_

#include <string>
#include <vector>

#include "common/result.h"
#include "sim/state/layout.h"

namespace krux::sim {

// What `krux-sim init` and the first user of a sim folder are told about the node.
struct NodeOptions {
  std::string model = "H200";
  uint32_t gpus = 1;
  uint32_t numa_nodes = 1;  // the cards are spread over them in order
  uint64_t memory_mib = 0;  // 0: what the model has
  std::string name;         // empty: what the model is called
  std::string node;         // card UUIDs derive from it; empty: random
};

// Fills a zeroed state. kInvalidArgument says which option is wrong and what is allowed.
Status FillState(const NodeOptions& options, State* state);

}  // namespace krux::sim

#endif  // KRUX_SIM_STATE_PROFILE_H_
