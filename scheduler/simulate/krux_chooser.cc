#include "scheduler/simulate/krux_chooser.h"

#include <algorithm>
#include <array>

namespace krux::simulate {
namespace {

// Of one GPU in the replay: a share of 1/1000 is one MiB.
constexpr uint64_t kCardMib = kWholeGpu;
constexpr uint32_t kSlots = 1000;
// kube-scheduler looks at so many nodes at least.
constexpr size_t kLeastNodes = 100;

krux_container ContainerOf(const Request& request) {
  krux_container c{};
  c.gpus = static_cast<uint32_t>(request.gpus);
  const bool whole = request.gpu_milli >= kWholeGpu;
  c.memory_mib = whole ? 0 : static_cast<uint64_t>(request.gpu_milli);
  c.cores = whole ? 100 : 0;
  return c;
}

}  // namespace

KruxChooser::KruxChooser(uint32_t policy, const std::vector<NodeShape>& nodes, const Trace* trace,
                         const Disturbance& disturbance)
    : policy_(policy),
      disturbance_(disturbance),
      learns_(trace == nullptr),
      cluster_(krux_cluster_new()),
      nodes_(nodes.size()),
      scores_(nodes.size()),
      random_(disturbance.seed) {
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes_[i];
    node.host = {static_cast<uint64_t>(nodes[i].cpu_milli), 0,
                 static_cast<uint64_t>(nodes[i].memory_mib), 0};
    krux_gpu gpu{};
    gpu.memory_mib = kCardMib;
    gpu.slots = kSlots;
    gpu.flags = KRUX_GPU_HEALTHY;
    gpu.model = nodes[i].model;
    node.gpus.assign(static_cast<size_t>(nodes[i].gpus), gpu);
    krux_cluster_set(cluster_.get(), i, &node.host, node.gpus.data(), node.gpus.size());
  }
  if (trace != nullptr) UseMixOf(*trace);
}

void KruxChooser::UseMixOf(const Trace& trace) {
  std::vector<krux_typical> typicals;
  std::vector<double> counts(trace.requests.size());
  for (const uint32_t pod : trace.pods) ++counts[pod];
  // The published typical classes do not tell host memory apart: classes that differ only in that
  // are one.
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    if (counts[i] == 0) continue;
    const Request& r = trace.requests[i];
    krux_typical t{ContainerOf(r), static_cast<uint64_t>(r.cpu_milli), r.models, counts[i]};
    const auto same = std::find_if(typicals.begin(), typicals.end(), [&](const krux_typical& o) {
      return o.container.gpus == t.container.gpus &&
             o.container.memory_mib == t.container.memory_mib && o.cpu_milli == t.cpu_milli &&
             o.models == t.models;
    });
    if (same == typicals.end()) {
      typicals.push_back(t);
    } else {
      same->weight += t.weight;
    }
  }
  std::array<uint32_t, KRUX_MAX_MODELS> gpus{};
  std::array<uint64_t, KRUX_MAX_MODELS> memory{};
  memory.fill(kCardMib);
  for (const Node& node : nodes_) {
    for (const krux_gpu& gpu : node.gpus) ++gpus[gpu.model];
  }
  krux_mix* mix = krux_mix_new(typicals.data(), typicals.size(), gpus.data(), memory.data());
  krux_cluster_use_mix(cluster_.get(), mix);
  krux_mix_free(mix);
}

KruxChooser::Asked KruxChooser::AskedOf(const Request& request) const {
  Asked asked;
  asked.pod.cpu_milli = static_cast<uint64_t>(request.cpu_milli);
  asked.pod.memory_mib = static_cast<uint64_t>(request.memory_mib);
  asked.pod.use_models = request.models;
  asked.pod.node_policy = policy_;
  asked.pod.gpu_policy = policy_;
  asked.container = ContainerOf(request);
  asked.containers = request.gpus > 0 ? 1 : 0;
  return asked;
}

bool KruxChooser::Add(const Request& request, Place* place) {
  const Asked asked = AskedOf(request);
  if (learns_) krux_cluster_learn(cluster_.get(), &asked.pod, &asked.container, asked.containers);
  krux_placement placement{};
  krux_verdict verdict;
  uint32_t node = 0;
  int code = KRUX_SHORT;
  if (disturbance_.random_ties || disturbance_.looked_at < 1) {
    if (!ChooseDisturbed(asked, &node)) return false;
    code = krux_cluster_plan(cluster_.get(), node, &asked.pod, &asked.container, asked.containers,
                             &placement, &verdict);
  } else {
    code = krux_cluster_choose(cluster_.get(), &asked.pod, &asked.container, asked.containers,
                               &node, &placement, &verdict);
  }
  if (code != KRUX_FITS) return false;
  place->node = node;
  place->gpus.assign(placement.gpu, placement.gpu + placement.count);
  Charge(request, *place, /*add=*/true);
  return true;
}

void KruxChooser::Remove(const Request& request, const Place& place) {
  Charge(request, place, /*add=*/false);
}

void KruxChooser::Charge(const Request& request, const Place& place, bool add) {
  Node& node = nodes_[place.node];
  const auto charge = [add](auto* value, uint64_t amount) {
    using Value = std::remove_pointer_t<decltype(value)>;
    *value = static_cast<Value>(add ? *value + amount : *value - amount);
  };
  charge(&node.host.used_cpu_milli, static_cast<uint64_t>(request.cpu_milli));
  charge(&node.host.used_memory_mib, static_cast<uint64_t>(request.memory_mib));
  const bool whole = request.gpu_milli >= kWholeGpu;
  for (const uint32_t index : place.gpus) {
    krux_gpu& gpu = node.gpus[index];
    charge(&gpu.used_memory_mib, static_cast<uint64_t>(request.gpu_milli));
    charge(&gpu.used_cores, whole ? 100 : 0);
    charge(&gpu.used_slots, 1);
    gpu.flags = KRUX_GPU_HEALTHY;
    if (whole && add) gpu.flags |= KRUX_GPU_EXCLUSIVE;
  }
  krux_cluster_set(cluster_.get(), place.node, &node.host, node.gpus.data(), node.gpus.size());
}

bool KruxChooser::ChooseDisturbed(const Asked& asked, uint32_t* node) {
  krux_cluster_scores(cluster_.get(), &asked.pod, &asked.container, asked.containers,
                      scores_.data(), scores_.size());
  return PickDisturbed(scores_, disturbance_, &random_, &start_, node);
}

bool PickDisturbed(const std::vector<int64_t>& scores, const Disturbance& disturbance,
                   std::mt19937_64* random, size_t* start, uint32_t* node) {
  const size_t count = scores.size();
  if (count == 0) return false;
  const size_t wanted =
      disturbance.looked_at >= 1
          ? count
          : std::max(kLeastNodes,
                     static_cast<size_t>(disturbance.looked_at * static_cast<double>(count)));
  int64_t best = KRUX_NO_SCORE;
  size_t ties = 0;
  size_t fitting = 0;
  size_t looked = 0;
  for (; looked < count && fitting < wanted; ++looked) {
    const size_t i = (*start + looked) % count;
    if (scores[i] == KRUX_NO_SCORE) continue;
    ++fitting;
    if (scores[i] > best) {
      best = scores[i];
      ties = 0;
    }
    if (scores[i] < best) continue;
    ++ties;
    const bool take = disturbance.random_ties ? (*random)() % ties == 0 : ties == 1;
    if (take) *node = static_cast<uint32_t>(i);
  }
  if (disturbance.looked_at < 1) *start = (*start + looked) % count;
  return best != KRUX_NO_SCORE;
}

}  // namespace krux::simulate
