#include "scheduler/simulate/own_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "common/file.h"

namespace krux::simulate {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxFileBytes = size_t{1} << 30;
constexpr uint32_t kSlots = 128;
// A card about which only its existence is known.
constexpr uint64_t kUnknownCardMib = 81920;

const Json& At(const Json& json, std::initializer_list<const char*> path) {
  static const Json nothing;
  const Json* at = &json;
  for (const char* key : path) {
    if (!at->is_object()) return nothing;
    const auto found = at->find(key);
    if (found == at->end()) return nothing;
    at = &*found;
  }
  return *at;
}

std::string TextAt(const Json& json, std::initializer_list<const char*> path) {
  const Json& value = At(json, path);
  return value.is_string() ? value.get<std::string>() : "";
}

// A Kubernetes quantity ("2", "500m", "16Gi") in 1/1000; nothing for what is none.
std::optional<double> Quantity(const Json& value) {
  if (value.is_number()) return value.get<double>() * 1000;
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.get_ref<const std::string&>();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  static const std::map<std::string, double> units = {{"m", 1},
                                                      {"", 1e3},
                                                      {"k", 1e6},
                                                      {"M", 1e9},
                                                      {"G", 1e12},
                                                      {"T", 1e15},
                                                      {"Ki", 1024e3},
                                                      {"Mi", 1048576e3},
                                                      {"Gi", 1073741824e3},
                                                      {"Ti", 1099511627776e3}};
  const auto unit = units.find(std::string(end, text.data() + text.size()));
  if (unit == units.end() || number < 0 || number > 1e15) return std::nullopt;
  return number * unit->second;
}

uint64_t CpuMilli(const Json& resources) {
  return static_cast<uint64_t>(Quantity(At(resources, {"cpu"})).value_or(0));
}

uint64_t MemoryMib(const Json& resources) {
  constexpr double kMilliPerMib = 1048576e3;
  return static_cast<uint64_t>(Quantity(At(resources, {"memory"})).value_or(0) / kMilliPerMib);
}

// Of the names that mean the same, the one that is there.
std::optional<int64_t> Asked(const Json& resources, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto value = Quantity(At(resources, {name}));
    if (value) return static_cast<int64_t>(*value / 1000);
  }
  return std::nullopt;
}

class Reader {
 public:
  Result<OwnCluster> Read(const Json& list) {
    const Json& items = At(list, {"items"});
    if (!items.is_array()) {
      return Error(ErrorCode::kInvalidArgument,
                   "no list of objects: use the output of "
                   "'kubectl get nodes,pods,kruxnodes -A -o json'");
    }
    for (const Json& item : items) {
      if (TextAt(item, {"kind"}) == "KruxNode") AddKruxNode(item);
    }
    for (const Json& item : items) {
      if (TextAt(item, {"kind"}) == "Node") AddNode(item);
    }
    for (const Json& item : items) {
      if (TextAt(item, {"kind"}) == "Pod") AddPod(item);
    }
    if (cluster_.nodes.empty()) {
      return Error(ErrorCode::kInvalidArgument,
                   "no node with GPUs in it: neither KruxNode objects nor nvidia.com/gpu on nodes");
    }
    std::sort(cluster_.pods.begin(), cluster_.pods.end(), [](const OwnPod& a, const OwnPod& b) {
      return std::tie(a.created, a.name) < std::tie(b.created, b.name);
    });
    return std::move(cluster_);
  }

 private:
  uint32_t ModelId(const std::string& model) {
    const auto [found, is_new] = models_.try_emplace(model, static_cast<uint32_t>(models_.size()));
    return std::min<uint32_t>(found->second, KRUX_MAX_MODELS - 1);
  }

  krux_gpu Card(const std::string& model, uint64_t memory_mib) {
    krux_gpu gpu{};
    gpu.memory_mib = std::clamp<uint64_t>(memory_mib, 1, KRUX_MAX_MEMORY_MIB);
    gpu.slots = kSlots;
    gpu.flags = KRUX_GPU_HEALTHY;
    gpu.model = ModelId(model);
    return gpu;
  }

  void AddKruxNode(const Json& item) {
    std::vector<krux_gpu>& gpus = krux_nodes_[TextAt(item, {"metadata", "name"})];
    for (const Json& gpu : At(item, {"spec", "gpus"})) {
      const Json& memory = At(gpu, {"memoryMiB"});
      if (!memory.is_number_unsigned() || gpus.size() == KRUX_MAX_GPUS) continue;
      gpus.push_back(Card(TextAt(gpu, {"model"}), memory.get<uint64_t>()));
    }
  }

  void AddNode(const Json& item) {
    OwnNode node;
    node.name = TextAt(item, {"metadata", "name"});
    const Json& allocatable = At(item, {"status", "allocatable"});
    const Json& labels = At(item, {"metadata", "labels"});
    const auto known = krux_nodes_.find(node.name);
    if (known != krux_nodes_.end()) {
      node.gpus = known->second;
    } else {
      const auto count = Asked(allocatable, {"nvidia.com/gpu"}).value_or(0);
      const auto memory = Asked(labels, {"nvidia.com/gpu.memory"});
      const krux_gpu card = Card(TextAt(labels, {"nvidia.com/gpu.product"}),
                                 memory ? static_cast<uint64_t>(*memory) : kUnknownCardMib);
      node.gpus.assign(static_cast<size_t>(std::clamp<int64_t>(count, 0, KRUX_MAX_GPUS)), card);
    }
    if (node.gpus.empty() || cluster_.nodes.size() == KRUX_MAX_NODES) return;
    node.host = {CpuMilli(allocatable), 0, MemoryMib(allocatable), 0};
    node_index_[node.name] = static_cast<uint32_t>(cluster_.nodes.size());
    cluster_.nodes.push_back(std::move(node));
  }

  void AddPod(const Json& item) {
    const std::string phase = TextAt(item, {"status", "phase"});
    const auto node = node_index_.find(TextAt(item, {"spec", "nodeName"}));
    if (phase == "Succeeded" || phase == "Failed" || node == node_index_.end()) return;
    OwnPod pod;
    pod.name = TextAt(item, {"metadata", "namespace"}) + "/" + TextAt(item, {"metadata", "name"});
    pod.created = TextAt(item, {"metadata", "creationTimestamp"});
    pod.node = node->second;
    for (const Json& container : At(item, {"spec", "containers"})) {
      const Json& requests = At(container, {"resources", "requests"});
      pod.pod.cpu_milli += CpuMilli(requests);
      pod.pod.memory_mib += MemoryMib(requests);
      if (!AddContainer(container, &pod)) return;
    }
    if (pod.containers.empty()) {
      krux_node& host = cluster_.nodes[pod.node].host;
      host.used_cpu_milli += pod.pod.cpu_milli;
      host.used_memory_mib += pod.pod.memory_mib;
    } else if (pod.containers.size() <= KRUX_MAX_CONTAINERS) {
      cluster_.pods.push_back(std::move(pod));
    }
  }

  bool AddContainer(const Json& container, OwnPod* pod) {
    const Json& limits = At(container, {"resources", "limits"});
    krux_asked asked{};
    const auto set = [](const std::optional<int64_t>& from, int64_t* value, uint8_t* has) {
      *value = from.value_or(0);
      *has = from ? 1 : 0;
    };
    set(Asked(limits, {"krux.io/gpu", "nvidia.com/gpu"}), &asked.gpu, &asked.has_gpu);
    set(Asked(limits, {"krux.io/gpumem", "nvidia.com/gpumem"}), &asked.memory_mib,
        &asked.has_memory);
    set(Asked(limits, {"krux.io/gpumem-percentage", "nvidia.com/gpumem-percentage"}),
        &asked.memory_percent, &asked.has_percent);
    set(Asked(limits, {"krux.io/gpucores", "nvidia.com/gpucores"}), &asked.cores, &asked.has_cores);
    krux_container out{};
    char why[KRUX_MAX_SENTENCE];
    if (krux_validate(&asked, &out, why, sizeof why) != KRUX_VALID) {
      cluster_.left_out.push_back("pod " + pod->name + ": " + why);
      return false;
    }
    if (out.gpus > 0) pod->containers.push_back(out);
    return true;
  }

  OwnCluster cluster_;
  std::map<std::string, uint32_t> models_;
  std::map<std::string, std::vector<krux_gpu>> krux_nodes_;
  std::map<std::string, uint32_t> node_index_;
};

void Charge(const OwnPod& pod, const std::vector<krux_placement>& placements, OwnNode* node) {
  std::vector<krux_share> shares(node->gpus.size());
  krux_peak(pod.containers.data(), placements.data(), placements.size(), shares.data(),
            shares.size());
  node->host.used_cpu_milli += pod.pod.cpu_milli;
  node->host.used_memory_mib += pod.pod.memory_mib;
  for (size_t i = 0; i < shares.size(); ++i) {
    node->gpus[i].used_memory_mib += shares[i].memory_mib;
    node->gpus[i].used_cores += shares[i].cores;
    node->gpus[i].used_slots += shares[i].slots;
    if (shares[i].exclusive != 0) node->gpus[i].flags |= KRUX_GPU_EXCLUSIVE;
  }
}

}  // namespace

Result<OwnCluster> ReadOwnCluster(const std::string& path) {
  KRUX_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxFileBytes));
  auto cluster = ParseOwnCluster(text);
  return std::move(cluster).With(path);
}

Result<OwnCluster> ParseOwnCluster(std::string_view json) {
  const Json list = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (list.is_discarded()) {
    return Error(ErrorCode::kInvalidArgument, "not JSON: kubectl writes it with -o json");
  }
  return Reader().Read(list);
}

Repacked Repack(const OwnCluster& own, uint32_t policy) {
  const std::unique_ptr<krux_cluster, void (*)(krux_cluster*)> cluster(krux_cluster_new(),
                                                                       krux_cluster_free);
  std::vector<OwnNode> nodes = own.nodes;
  const auto tell = [&](uint32_t i) {
    krux_cluster_set(cluster.get(), i, &nodes[i].host, nodes[i].gpus.data(), nodes[i].gpus.size());
  };
  for (uint32_t i = 0; i < nodes.size(); ++i) tell(i);
  Repacked result;
  std::set<uint32_t> used;
  for (const OwnPod& pod : own.pods) {
    krux_pod asked = pod.pod;
    asked.node_policy = asked.gpu_policy = policy;
    std::vector<krux_placement> placements(pod.containers.size());
    krux_verdict verdict;
    uint32_t index = 0;
    krux_cluster_learn(cluster.get(), &asked, pod.containers.data(), pod.containers.size());
    if (krux_cluster_choose(cluster.get(), &asked, pod.containers.data(), pod.containers.size(),
                            &index, placements.data(), &verdict) != KRUX_FITS) {
      continue;
    }
    ++result.placed;
    used.insert(index);
    Charge(pod, placements, &nodes[index]);
    tell(index);
  }
  result.nodes_in_use = used.size();
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    for (const krux_gpu& gpu : nodes[i].gpus) result.gpus_in_use += gpu.used_slots > 0 ? 1 : 0;
    if (used.count(i) == 0) result.gpus_that_could_go += nodes[i].gpus.size();
  }
  return result;
}

std::string AdviceFor(const OwnCluster& own) {
  size_t gpus = 0;
  for (const OwnNode& node : own.nodes) gpus += node.gpus.size();
  std::set<uint32_t> used;
  for (const OwnPod& pod : own.pods) used.insert(pod.node);
  size_t idle_now = 0;
  for (uint32_t i = 0; i < own.nodes.size(); ++i) {
    if (used.count(i) == 0) idle_now += own.nodes[i].gpus.size();
  }
  std::string out = fmt::format(
      "{} GPUs on {} nodes, {} pods that ask for GPUs.\n\n"
      "| placed by | pods placed | nodes in use | GPUs in use | GPUs on idle nodes: could go |\n"
      "|---|---|---|---|---|\n| as it is now | {} | {} | | {} |\n",
      gpus, own.nodes.size(), own.pods.size(), own.pods.size(), used.size(), idle_now);
  for (const char* policy : {"fragmentation", "binpack", "spread"}) {
    const Repacked r = Repack(own, static_cast<uint32_t>(krux_policy(policy)));
    out += fmt::format("| {} | {} | {} | {} | {} |\n", policy, r.placed, r.nodes_in_use,
                       r.gpus_in_use, r.gpus_that_could_go);
  }
  out +=
      "\nPods are placed anew in the order of their creation, with their CPU and memory; node "
      "selectors, affinity and taints are not looked at.\n";
  for (const std::string& line : own.left_out) out += "Left out: " + line + "\n";
  return out;
}

}  // namespace krux::simulate
