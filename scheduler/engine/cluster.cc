#include "scheduler/engine/cluster.h"

#include <algorithm>
#include <cstring>

#include "scheduler/engine/phases.h"
#include "scheduler/engine/planner.h"
#include "scheduler/engine/selection.h"

namespace krux::engine {
namespace {

// A row that lags further behind than this is made anew.
constexpr size_t kMaxLog = 1 << 16;

bool SameClass(const PodClass& a, const PodClass& b) {
  const size_t bytes = a.containers.size() * sizeof(krux_container);
  return a.containers.size() == b.containers.size() &&
         std::memcmp(&a.pod, &b.pod, sizeof a.pod) == 0 &&
         (bytes == 0 || std::memcmp(a.containers.data(), b.containers.data(), bytes) == 0);
}

bool HostHasRoom(const krux_node& node, const krux_pod& pod) {
  const bool cpu = node.cpu_milli == 0 || pod.cpu_milli == 0 ||
                   node.used_cpu_milli + pod.cpu_milli <= node.cpu_milli;
  const bool memory = node.memory_mib == 0 || pod.memory_mib == 0 ||
                      node.used_memory_mib + pod.memory_mib <= node.memory_mib;
  return cpu && memory;
}

}  // namespace

Cluster::Cluster() : mix_(std::make_unique<Mix>(ShippedMix())) {}

void Cluster::Changed(uint32_t index) {
  log_.push_back(index);
  if (log_.size() < kMaxLog) return;
  log_.clear();
  rows_.clear();
}

void Cluster::Set(uint32_t index, const krux_node& node, const krux_gpu* gpus, size_t gpu_count) {
  if (index >= nodes_.size()) nodes_.resize(index + 1);
  nodes_[index].node = node;
  nodes_[index].gpus.assign(gpus, gpus + gpu_count);
  Changed(index);
}

void Cluster::Remove(uint32_t index) {
  if (index >= nodes_.size()) return;
  nodes_[index] = Node{};
  Changed(index);
}

bool Cluster::Learn(const PodClass& pod) {
  const krux_container* largest = LargestContainer(pod.containers.data(), pod.containers.size());
  const bool due = history_.Add(largest, pod.pod.cpu_milli, AllowedModels(pod.pod));
  if (!due || !learns_) return false;
  mix_ = std::make_unique<Mix>(history_.MakeMix(CountGpus()));
  rows_.clear();
  return true;
}

void Cluster::UseMix(const Mix* mix) {
  learns_ = mix == nullptr;
  mix_ = std::make_unique<Mix>(mix == nullptr ? history_.MakeMix(CountGpus()) : *mix);
  rows_.clear();
}

GpusOfModel Cluster::CountGpus() const {
  GpusOfModel gpus{};
  for (const Node& node : nodes_) {
    for (const krux_gpu& gpu : node.gpus) ++gpus[gpu.model % KRUX_MAX_MODELS];
  }
  return gpus;
}

int Cluster::Plan(uint32_t index, const PodClass& pod, krux_placement* placements,
                  krux_verdict* verdict) {
  const Node& node = nodes_[index];
  Phases phases;
  FindPhases(pod.containers.data(), pod.containers.size(), &phases);
  const NodeView view{&node.node, node.gpus.data(), node.gpus.size(), &pod.pod, mix_.get()};
  Planner planner(view, pod.containers.data(), pod.containers.size(), phases);
  planner.Plan(placements, verdict);
  if (verdict->code == KRUX_FITS && !HostHasRoom(node.node, pod.pod)) {
    verdict->code = KRUX_HOST_SHORT;
  }
  return static_cast<int>(verdict->code);
}

int64_t Cluster::ScoreOf(uint32_t index, const PodClass& pod) {
  if (nodes_[index].gpus.empty() || !HostHasRoom(nodes_[index].node, pod.pod)) {
    return KRUX_NO_SCORE;
  }
  std::array<krux_placement, KRUX_MAX_CONTAINERS> placements;
  krux_verdict verdict;
  const int code = Plan(index, pod, placements.data(), &verdict);
  return code == KRUX_FITS ? verdict.score : KRUX_NO_SCORE;
}

Cluster::Row& Cluster::FindRow(const PodClass& pod) {
  const auto found = std::find_if(rows_.begin(), rows_.end(),
                                  [&](const Row& row) { return SameClass(row.pod, pod); });
  if (found != rows_.end()) return *found;
  Row row{pod, {}, 0, 0};
  if (rows_.size() < kMaxRows) {
    rows_.push_back(std::move(row));
    return rows_.back();
  }
  const auto oldest = std::min_element(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return a.last_use < b.last_use;
  });
  *oldest = std::move(row);
  return *oldest;
}

void Cluster::Refresh(Row* row) {
  row->last_use = ++uses_;
  const bool is_new = row->scores.empty();
  row->scores.resize(nodes_.size(), KRUX_NO_SCORE);
  if (is_new) {
    for (uint32_t i = 0; i < nodes_.size(); ++i) row->scores[i] = ScoreOf(i, row->pod);
  } else {
    for (size_t i = row->log_read; i < log_.size(); ++i) {
      row->scores[log_[i]] = ScoreOf(log_[i], row->pod);
    }
  }
  row->log_read = log_.size();
}

const std::vector<int64_t>& Cluster::Scores(const PodClass& pod) {
  Row& row = FindRow(pod);
  Refresh(&row);
  return row.scores;
}

std::optional<uint32_t> Cluster::Choose(const PodClass& pod) {
  const std::vector<int64_t>& scores = Scores(pod);
  const auto best = std::max_element(scores.begin(), scores.end());
  if (best == scores.end() || *best == KRUX_NO_SCORE) return std::nullopt;
  return static_cast<uint32_t>(best - scores.begin());
}

}  // namespace krux::engine
