#include "scheduler/engine/cluster.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "scheduler/engine/phases.h"
#include "scheduler/engine/planner.h"
#include "scheduler/engine/selection.h"

namespace krux::engine {
namespace {

// Changes that are remembered; a row that lags further behind is made anew.
constexpr size_t kLogSize = 1U << 14;
// A mix that differs by less of its weight is kept: rows need not be made anew.
constexpr double kSameMix = 0.03;
// Entries of the log whose nodes and scores are fetched before it is their turn. Most of what a
// node costs is to fetch it, and which ones come next is known.
constexpr uint64_t kAhead = 8;

bool SameClass(const PodClass& a, const PodClass& b) {
  const size_t bytes = a.containers.size() * sizeof(krux_container);
  return a.containers.size() == b.containers.size() &&
         std::memcmp(&a.pod, &b.pod, sizeof a.pod) == 0 &&
         (bytes == 0 || std::memcmp(a.containers.data(), b.containers.data(), bytes) == 0);
}

uint64_t HashOf(const void* data, size_t bytes, uint64_t hash) {
  const auto* at = static_cast<const char*>(data);
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

uint64_t HashOf(const PodClass& pod) {
  static_assert(sizeof(krux_container) % sizeof(uint64_t) == 0);
  const krux_pod& p = pod.pod;
  const uint64_t head[] = {p.cpu_milli,
                           p.memory_mib,
                           p.use_models,
                           p.no_models,
                           uint64_t{p.node_policy} << 32 | p.gpu_policy,
                           uint64_t{p.use_uuid_count} << 32 | p.no_uuid_count};
  uint64_t hash = HashOf(head, sizeof head, 0);
  hash = HashOf(p.use_uuids, p.use_uuid_count * sizeof(uint64_t), hash);
  hash = HashOf(p.no_uuids, p.no_uuid_count * sizeof(uint64_t), hash);
  return HashOf(pod.containers.data(), pod.containers.size() * sizeof(krux_container), hash);
}

// Whether the fleet is the same with the one node and with the other.
bool SameInFleet(const krux_node& a, const std::vector<krux_gpu>& a_gpus, const krux_node& b,
                 const krux_gpu* b_gpus, size_t b_count) {
  return a.cpu_milli == b.cpu_milli &&
         std::equal(a_gpus.begin(), a_gpus.end(), b_gpus, b_gpus + b_count,
                    [](const krux_gpu& x, const krux_gpu& y) {
                      return x.model == y.model && x.memory_mib == y.memory_mib;
                    });
}

bool HostHasRoom(const krux_node& node, const krux_pod& pod) {
  const bool cpu = node.cpu_milli == 0 || pod.cpu_milli == 0 ||
                   node.used_cpu_milli + pod.cpu_milli <= node.cpu_milli;
  const bool memory = node.memory_mib == 0 || pod.memory_mib == 0 ||
                      node.used_memory_mib + pod.memory_mib <= node.memory_mib;
  return cpu && memory;
}

}  // namespace

Cluster::Cluster() : log_(kLogSize), knowledge_(std::make_unique<Knowledge>(ShippedKnowledge())) {
  index_.Adopt(&knowledge_->forecast);
}

void Cluster::Changed(uint32_t index) {
  log_[log_end_ % kLogSize] = index;
  changed_[index] = log_end_++;
}

void Cluster::Set(uint32_t index, const krux_node& node, const krux_gpu* gpus, size_t gpu_count) {
  if (index >= nodes_.size()) {
    nodes_.resize(index + 1);
    changed_.resize(nodes_.size());
  }
  Node& known = nodes_[index];
  if (fleet_ && !SameInFleet(known.node, known.gpus, node, gpus, gpu_count)) fleet_.reset();
  index_.Set(index, node, known.gpus, gpus, gpu_count);
  known.node = node;
  known.gpus.assign(gpus, gpus + gpu_count);
  Changed(index);
}

void Cluster::Remove(uint32_t index) {
  if (index < nodes_.size()) Set(index, krux_node{}, nullptr, 0);
}

bool Cluster::Learn(const PodClass& pod) {
  const krux_container* largest = LargestContainer(pod.containers.data(), pod.containers.size());
  const bool due = history_.Add(largest, pod.pod.cpu_milli, AllowedModels(pod.pod));
  if (!due || !learns_) return false;
  if (!fleet_) fleet_ = CountFleet();
  const Fleet& fleet = *fleet_;
  Mix mix = history_.MakeMix(fleet.gpus);
  if (mix.DifferenceFrom(knowledge_->mix) < kSameMix) return false;
  Adopt(std::make_unique<Knowledge>(std::move(mix), fleet));
  return true;
}

void Cluster::UseMix(const Mix* mix) {
  const Fleet fleet = CountFleet();
  Adopt(std::make_unique<Knowledge>(mix == nullptr ? history_.MakeMix(fleet.gpus) : *mix, fleet));
  learns_ = mix == nullptr;
}

void Cluster::Adopt(std::unique_ptr<const Knowledge> knowledge) {
  knowledge_ = std::move(knowledge);
  index_.Adopt(&knowledge_->forecast);
  for (const auto& row : rows_) row->is_new = true;
}

Fleet Cluster::CountFleet() const {
  Fleet fleet;
  std::map<std::pair<uint64_t, size_t>, uint32_t> shapes;
  for (const Node& node : nodes_) {
    if (!node.gpus.empty()) ++shapes[{node.node.cpu_milli, node.gpus.size()}];
    fleet.most_cpu_milli = std::max(fleet.most_cpu_milli, node.node.cpu_milli);
    fleet.most_gpus = std::max(fleet.most_gpus, static_cast<uint32_t>(node.gpus.size()));
    for (const krux_gpu& gpu : node.gpus) {
      ++fleet.gpus[gpu.model % KRUX_MAX_MODELS];
      uint64_t& memory = fleet.memory_mib[gpu.model % KRUX_MAX_MODELS];
      memory = std::max(memory, gpu.memory_mib);
    }
  }
  for (const auto& [shape, nodes] : shapes) {
    fleet.shapes.push_back({shape.first, static_cast<uint32_t>(shape.second), nodes});
  }
  return fleet;
}

int Cluster::Plan(uint32_t index, const PodClass& pod, krux_placement* placements,
                  krux_verdict* verdict) const {
  const Node& node = nodes_[index];
  if (SimplePod::IsSimple(pod.pod, pod.containers) &&
      (pod.containers.empty() || pod.containers[0].gpus == 1)) {
    const SimplePod simple = SimplePod::FromPod(pod.pod, pod.containers);
    const Score score = index_.Place(index, simple, placements);
    if (score != kNoScore) {
      // What Set() is told next is compared with these: by then they are at hand.
      for (const krux_gpu& gpu : node.gpus) __builtin_prefetch(&gpu);
      verdict->code = KRUX_FITS;
      verdict->score = score;
      return KRUX_FITS;
    }
  }
  Phases phases;
  FindPhases(pod.containers.data(), pod.containers.size(), &phases);
  const NodeView view{&node.node, node.gpus.data(), node.gpus.size(), &pod.pod,
                      &knowledge_->forecast};
  Planner planner(view, pod.containers.data(), pod.containers.size(), phases);
  planner.Plan(placements, verdict);
  if (verdict->code == KRUX_FITS && !HostHasRoom(node.node, pod.pod)) {
    verdict->code = KRUX_HOST_SHORT;
  }
  return static_cast<int>(verdict->code);
}

Score Cluster::ScoreOf(uint32_t index, const Row& row) const {
  if (row.simple) return index_.ScoreOf(index, *row.simple);
  if (nodes_[index].gpus.empty() || !HostHasRoom(nodes_[index].node, row.pod.pod)) {
    return kNoScore;
  }
  std::array<krux_placement, KRUX_MAX_CONTAINERS> placements;
  krux_verdict verdict;
  if (Plan(index, row.pod, placements.data(), &verdict) != KRUX_FITS) return kNoScore;
  constexpr int64_t kMost = INT32_MAX;
  return static_cast<Score>(std::clamp(verdict.score, -kMost, kMost));
}

Cluster::Row& Cluster::FindRow(const PodClass& pod) {
  const uint64_t hash = HashOf(pod);
  const auto found = row_of_.find(hash);
  if (found != row_of_.end() && SameClass(found->second->pod, pod)) return *found->second;
  Row* row = nullptr;
  if (found != row_of_.end()) {
    row = found->second;
  } else if (rows_.size() < kMaxRows) {
    rows_.push_back(std::make_unique<Row>());
    row = rows_.back().get();
  } else {
    row = std::min_element(rows_.begin(), rows_.end(), [](const auto& a, const auto& b) {
            return a->last_use < b->last_use;
          })->get();
    row_of_.erase(row->hash);
  }
  row->pod = pod;
  row->simple.reset();
  if (SimplePod::IsSimple(pod.pod, pod.containers)) {
    row->simple = SimplePod::FromPod(pod.pod, pod.containers);
  }
  row->hash = hash;
  row->is_new = true;
  row_of_[hash] = row;
  return *row;
}

// Nodes of one state score alike: in a large cluster many are idle, or full in the same way.
void Cluster::Fill(Row* row) {
  row->is_new = false;
  row->log_read = log_end_;
  if (!row->simple) {
    row->scores.SetAll([&](uint32_t i) { return ScoreOf(i, *row); });
    return;
  }
  constexpr size_t kRemembered = 256;
  std::array<std::pair<uint64_t, Score>, kRemembered> seen;
  seen.fill({0, kNoScore});
  const SimplePod& pod = *row->simple;
  row->scores.SetAll([&](uint32_t i) {
    if (!index_.MayFit(i, pod)) return kNoScore;
    const uint64_t state = index_.fingerprint(i);
    auto& slot = seen[state % kRemembered];
    if (slot.first != state) slot = {state, index_.ScoreOf(i, pod)};
    return slot.second;
  });
}

void Cluster::Refresh(Row* row, uint64_t until) {
  row->scores.Resize(nodes_.size());
  if (row->is_new || log_end_ - row->log_read > kLogSize) {
    Fill(row);
    return;
  }
  uint64_t fetched = row->log_read;
  for (; row->log_read < until; ++row->log_read) {
    const uint64_t ahead = std::min(until, row->log_read + kAhead);
    for (; fetched < ahead; ++fetched) Fetch(*row, fetched);
    const uint32_t index = log_[row->log_read % kLogSize];
    // A later entry of the same node will do.
    if (changed_[index] == row->log_read) row->scores.Set(index, ScoreOf(index, *row));
  }
}

void Cluster::Fetch(const Row& row, uint64_t entry) const {
  const uint32_t index = log_[entry % kLogSize];
  row.scores.Prefetch(index);
  index_.Prefetch(index);
}

const ScoreRow& Cluster::Scores(const PodClass& pod) {
  Row& row = FindRow(pod);
  row.last_use = ++uses_;
  Refresh(&row, log_end_);
  return row.scores;
}

std::optional<uint32_t> Cluster::Choose(const PodClass& pod) { return Scores(pod).Best(); }

// Row after row in turn: the one whose turn it is has waited longest, or was asked for since.
bool Cluster::Tend(size_t most_nodes) {
  for (size_t seen = 0; seen < rows_.size(); ++seen) {
    Row* row = rows_[turn_ % rows_.size()].get();
    const uint64_t lag = log_end_ - row->log_read;
    if (row->is_new || lag > kLogSize) {
      if (most_nodes == 0) return true;
      Refresh(row, log_end_);
      ++turn_;
      return true;
    }
    const uint64_t looked_at = std::min<uint64_t>(lag, most_nodes);
    Refresh(row, row->log_read + looked_at);
    if (looked_at < lag) return true;
    most_nodes -= looked_at;
    ++turn_;
  }
  return false;
}

}  // namespace krux::engine
