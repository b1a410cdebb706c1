#include "scheduler/simulate/published_chooser.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "scheduler/simulate/krux_chooser.h"

namespace krux::simulate {
namespace {

bool IsAllowed(const Request& request, uint32_t model) {
  return request.models == 0 || (request.models >> model & 1) != 0;
}

}  // namespace

PublishedChooser::PublishedChooser(PublishedPolicy policy, const std::vector<NodeShape>& nodes,
                                   const Trace& trace, const Disturbance& disturbance)
    : policy_(policy),
      disturbance_(disturbance),
      trace_(trace),
      cache_(trace.requests.size(), std::vector<Cached>(nodes.size())),
      scores_(nodes.size()),
      random_(disturbance.seed) {
  for (const NodeShape& shape : nodes) {
    Node node;
    node.cpu_milli = shape.cpu_milli;
    node.memory_mib = shape.memory_mib;
    node.gpus = shape.gpus;
    node.model = shape.model;
    std::fill_n(node.free.begin(), shape.gpus, kWholeGpu);
    nodes_.push_back(node);
  }
  FindTypicals(trace);
}

// The shortest list of the most common classes that covers 95 % of the pods.
void PublishedChooser::FindTypicals(const Trace& trace) {
  constexpr double kCovered = 0.95;
  std::map<std::tuple<int64_t, int64_t, int, uint64_t>, Typical> classes;
  for (const uint32_t pod : trace.pods) {
    const Request& r = trace.requests[pod];
    Typical& t = classes[{r.cpu_milli, r.gpu_milli, r.gpus, r.models}];
    t.request = r;
    t.weight += 1;
  }
  for (const auto& [key, typical] : classes) typicals_.push_back(typical);
  const auto order = [](const Typical& t) {
    const Request& r = t.request;
    return std::make_tuple(-t.weight, r.cpu_milli, r.gpu_milli, r.gpus, r.models);
  };
  std::sort(typicals_.begin(), typicals_.end(),
            [&](const Typical& a, const Typical& b) { return order(a) < order(b); });
  double covered = 0;
  size_t kept = 0;
  while (covered < kCovered * static_cast<double>(trace.pods.size())) {
    covered += typicals_[kept++].weight;
  }
  typicals_.resize(kept);
  for (Typical& t : typicals_) t.weight /= covered;
}

bool PublishedChooser::Fits(const Node& node, const Request& request) {
  if (node.cpu_milli < request.cpu_milli || node.memory_mib < request.memory_mib) return false;
  if (request.gpus == 0) return true;
  if (!IsAllowed(request, node.model)) return false;
  return std::count_if(node.free.begin(), node.free.begin() + node.gpus,
                       [&](int64_t free) { return free >= request.gpu_milli; }) >= request.gpus;
}

// gpu counts for requests of one GPU only; others take those with the lowest number.
void PublishedChooser::Take(const Request& request, int gpu, Node* node, Place* place) {
  node->cpu_milli -= request.cpu_milli;
  node->memory_mib -= request.memory_mib;
  int wanted = request.gpus;
  for (int i = request.gpus == 1 ? gpu : 0; wanted > 0; ++i) {
    int64_t& free = node->free[static_cast<size_t>(i)];
    if (free < request.gpu_milli) continue;
    free -= request.gpu_milli;
    --wanted;
    if (place != nullptr) place->gpus.push_back(static_cast<uint32_t>(i));
  }
}

double PublishedChooser::Fragmentation(const Node& node) const {
  double all = 0;
  for (const int64_t free : node.free) all += static_cast<double>(free);
  double sum = 0;
  for (const Typical& t : typicals_) {
    const Request& r = t.request;
    double unusable = 0;
    int fitting = 0;
    for (int i = 0; i < node.gpus; ++i) {
      const int64_t free = node.free[static_cast<size_t>(i)];
      if (free >= r.gpu_milli) {
        ++fitting;
      } else {
        unusable += static_cast<double>(free);
      }
    }
    const bool none = r.gpus == 0 || !IsAllowed(r, node.model) || node.cpu_milli < r.cpu_milli ||
                      fitting < r.gpus;
    sum += t.weight * (none ? all : unusable);
  }
  return sum;
}

int64_t PublishedChooser::FgdScore(const Node& node, const Request& request, int* gpu) const {
  const double before = Fragmentation(node);
  const auto score_of = [&](int candidate) {
    Node then = node;
    Take(request, candidate, &then, nullptr);
    const double gain = (before - Fragmentation(then)) / kWholeGpu;
    return static_cast<int64_t>(std::floor(100 / (1 + std::exp(-gain))));
  };
  *gpu = 0;
  if (request.gpus != 1) return score_of(0);
  int64_t best = -1;
  for (int i = 0; i < node.gpus; ++i) {
    if (node.free[static_cast<size_t>(i)] < request.gpu_milli) continue;
    const int64_t score = score_of(i);
    if (score > best) {
      best = score;
      *gpu = i;
    }
    if (request.gpu_milli == kWholeGpu) break;  // idle GPUs are all alike
  }
  return best;
}

int64_t PublishedChooser::Score(const Node& node, const Request& request, int* gpu) {
  if (!Fits(node, request)) return KRUX_NO_SCORE;
  if (policy_ == PublishedPolicy::kFgd) return FgdScore(node, request, gpu);
  int64_t least = 2 * kWholeGpu;
  int64_t free = 0;
  for (int i = 0; i < node.gpus; ++i) {
    const int64_t here = node.free[static_cast<size_t>(i)];
    free += here;
    if (here >= request.gpu_milli && here < least) {
      least = here;
      *gpu = i;
    }
  }
  if (policy_ == PublishedPolicy::kRandom) return static_cast<int64_t>(random_() % 1000000);
  const auto cpu_left = static_cast<double>(node.cpu_milli - request.cpu_milli) / 128000;
  const auto gpu_left = static_cast<double>(free - request.gpus * request.gpu_milli) / 8000;
  return std::llround((1 - 0.5 * cpu_left - 0.5 * gpu_left) * 1e9);
}

bool PublishedChooser::Add(const Request& request, Place* place) {
  auto& row = cache_[static_cast<size_t>(&request - trace_.requests.data())];
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Cached& cached = row[i];
    if (cached.version != nodes_[i].version || policy_ == PublishedPolicy::kRandom) {
      int gpu = 0;
      cached.score = Score(nodes_[i], request, &gpu);
      cached.gpu = gpu;
      cached.version = nodes_[i].version;
    }
    scores_[i] = cached.score;
  }
  if (!PickDisturbed(scores_, disturbance_, &random_, &start_, &place->node)) return false;
  place->gpus.clear();
  Take(request, row[place->node].gpu, &nodes_[place->node], place);
  ++nodes_[place->node].version;
  return true;
}

void PublishedChooser::Remove(const Request& request, const Place& place) {
  Node& node = nodes_[place.node];
  node.cpu_milli += request.cpu_milli;
  node.memory_mib += request.memory_mib;
  for (const uint32_t gpu : place.gpus) node.free[gpu] += request.gpu_milli;
  ++node.version;
}

}  // namespace krux::simulate
