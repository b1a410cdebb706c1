// All nodes of a cluster, and for each class of pods a row with every node's score.
//
// A row is made when its class is first asked for, and brought up to date when it is asked for
// again: a log says which nodes have changed since. Pods of one container are scored by NodeIndex,
// others by the planner. See krux_cluster in krux_engine.h for the contract. One thread at a time.
#ifndef KRUX_SCHEDULER_ENGINE_CLUSTER_H_
#define KRUX_SCHEDULER_ENGINE_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "scheduler/engine/history.h"
#include "scheduler/engine/knowledge.h"
#include "scheduler/engine/krux_engine.h"
#include "scheduler/engine/node_index.h"
#include "scheduler/engine/score_row.h"

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
  const Mix& mix() const { return knowledge_->mix; }
  const Knowledge& knowledge() const { return *knowledge_; }
  size_t size() const { return nodes_.size(); }

  // Index of the best node, or nullopt.
  std::optional<uint32_t> Choose(const PodClass& pod);
  const ScoreRow& Scores(const PodClass& pod);

  // Brings rows up to date, looking at `most_nodes` at most, or makes one anew: for idle moments.
  // False when nothing is left to do.
  bool Tend(size_t most_nodes);

  // Plans the pod on one node.
  int Plan(uint32_t index, const PodClass& pod, krux_placement* placements,
           krux_verdict* verdict) const;

 private:
  struct Node {
    krux_node node{};
    std::vector<krux_gpu> gpus;  // empty: no such node
  };
  struct Row {
    PodClass pod;
    std::optional<SimplePod> simple;
    ScoreRow scores;
    uint64_t hash = 0;
    uint64_t log_read = 0;  // changes before this one are in
    uint64_t last_use = 0;
    bool is_new = true;
  };
  Fleet CountFleet() const;
  Row& FindRow(const PodClass& pod);
  void Refresh(Row* row, uint64_t until);
  void Fill(Row* row);
  void Fetch(const Row& row, uint64_t entry) const;
  Score ScoreOf(uint32_t index, const Row& row) const;
  void Changed(uint32_t index);
  void Adopt(std::unique_ptr<const Knowledge> knowledge);

  std::vector<Node> nodes_;
  NodeIndex index_;
  // Ring of changed nodes; entry n is in log_[n % size]. changed_[i] is node i's last entry.
  std::vector<uint32_t> log_;
  std::vector<uint64_t> changed_;
  uint64_t log_end_ = 0;
  std::vector<std::unique_ptr<Row>> rows_;
  std::unordered_map<uint64_t, Row*> row_of_;  // by hash of the class
  uint64_t uses_ = 0;
  std::optional<Fleet> fleet_;  // what CountFleet() gives, until a node changes it
  size_t turn_ = 0;             // the row that Tend() looks at next
  History history_;
  std::unique_ptr<const Knowledge> knowledge_;
  bool learns_ = true;
};

}  // namespace krux::engine

#endif  // KRUX_SCHEDULER_ENGINE_CLUSTER_H_
