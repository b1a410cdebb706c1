// All nodes of a cluster, and for each class of pods a row with every node's score.
//
// A row is made when its class is first asked for and brought up to date when it is asked for
// again: each node has a version, and a log says which nodes have changed since. See krux_cluster
// in krux_engine.h for the contract. One thread at a time.
#ifndef KRUX_SCHEDULER_ENGINE_CLUSTER_H_
#define KRUX_SCHEDULER_ENGINE_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "scheduler/engine/history.h"
#include "scheduler/engine/krux_engine.h"
#include "scheduler/engine/mix.h"

namespace krux::engine {

// What a pod asks for, as the cluster keeps it for its row.
struct PodClass {
  krux_pod pod{};
  std::vector<krux_container> containers;
};

class Cluster {
 public:
  static constexpr size_t kMaxRows = 256;

  Cluster();

  void Set(uint32_t index, const krux_node& node, const krux_gpu* gpus, size_t gpu_count);
  void Remove(uint32_t index);
  bool Learn(const PodClass& pod);  // true: the mix has changed
  void UseMix(const Mix* mix);
  const Mix& mix() const { return *mix_; }

  // Index of the best node, or nullopt.
  std::optional<uint32_t> Choose(const PodClass& pod);
  const std::vector<int64_t>& Scores(const PodClass& pod);

  // Plans the pod on one node.
  int Plan(uint32_t index, const PodClass& pod, krux_placement* placements, krux_verdict* verdict);

 private:
  struct Node {
    krux_node node{};
    std::vector<krux_gpu> gpus;  // empty: no such node
  };
  struct Row {
    PodClass pod;
    std::vector<int64_t> scores;
    size_t log_read = 0;  // changes up to here are in
    uint64_t last_use = 0;
  };
  Row& FindRow(const PodClass& pod);
  void Refresh(Row* row);
  int64_t ScoreOf(uint32_t index, const PodClass& pod);
  void Changed(uint32_t index);
  GpusOfModel CountGpus() const;

  std::vector<Node> nodes_;
  std::vector<uint32_t> log_;  // nodes in the order of their changes
  std::vector<Row> rows_;
  uint64_t uses_ = 0;
  History history_;
  std::unique_ptr<const Mix> mix_;
  bool learns_ = true;
};

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_CLUSTER_H_
