// An operator's own cluster, from `kubectl get nodes,pods,kruxnodes -A -o json`: what would a
// policy change, and how many GPUs could go?
//
// GPUs come from KruxNode objects, or from the labels of NVIDIA's feature discovery, or from the
// number of nvidia.com/gpu that a node offers. Pods may ask by Krux's or NVIDIA's and HAMi's names.
// The file is somebody else's: sizes are bounded, and what cannot be read is named.
#ifndef KRUX_SCHEDULER_SIMULATE_OWN_CLUSTER_H_
#define KRUX_SCHEDULER_SIMULATE_OWN_CLUSTER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"
#include "scheduler/engine/krux_engine.h"

namespace krux::simulate {

struct OwnNode {
  std::string name;
  krux_node host{};            // used_*: what pods without GPUs ask for
  std::vector<krux_gpu> gpus;  // as if no pod were there
};

struct OwnPod {
  std::string name;     // namespace/name
  std::string created;  // sorts as text
  uint32_t node = 0;    // index of the node where it runs
  krux_pod pod{};
  std::vector<krux_container> containers;
};

struct OwnCluster {
  std::vector<OwnNode> nodes;  // those with GPUs
  std::vector<OwnPod> pods;    // those on these nodes that ask for GPUs, as they were created
  std::vector<std::string> left_out;  // what could not be read, in words
};

Result<OwnCluster> ReadOwnCluster(const std::string& path);
Result<OwnCluster> ParseOwnCluster(std::string_view json);

// All pods placed anew, in the order of their creation.
struct Repacked {
  size_t placed = 0;
  size_t nodes_in_use = 0;
  size_t gpus_in_use = 0;
  size_t gpus_that_could_go = 0;  // on nodes without any GPU pod
};
Repacked Repack(const OwnCluster& cluster, uint32_t policy);

// The table that `krux-simulate cluster` prints.
std::string AdviceFor(const OwnCluster& cluster);

}  // namespace krux::simulate

#endif  // KRUX_SCHEDULER_SIMULATE_OWN_CLUSTER_H_
