#include "agent/ledger.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/file.h"

namespace krux::agent {
namespace {

using nlohmann::json;

constexpr size_t kMaxPods = 4096;
constexpr size_t kMaxNamedHolders = 4;

Error Damaged(const std::string& what) { return Error{ErrorCode::kDataLoss, what}; }

// Ledger text that is not of the expected form throws no exception: each getter checks the type.
Result<std::string> Text(const json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_string()) {
    return Damaged(std::string("'") + name + "' is missing or is not a text");
  }
  return field->get<std::string>();
}

Result<uint64_t> Number(const json& object, const char* name, uint64_t high) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_number_unsigned() || field->get<uint64_t>() > high) {
    return Damaged(std::string("'") + name + "' is missing or is not a number up to " +
                   std::to_string(high));
  }
  return field->get<uint64_t>();
}

Result<const json*> List(const json& object, const char* name, size_t most) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_array() || field->size() > most) {
    return Damaged(std::string("'") + name + "' is missing or is not a list");
  }
  return &*field;
}

Result<GpuGrant> ParseGpu(const json& object) {
  if (!object.is_object()) return Damaged("a GPU is not an object");
  GpuGrant gpu;
  KRUX_ASSIGN_OR_RETURN(gpu.uuid, Text(object, "uuid"));
  KRUX_ASSIGN_OR_RETURN(gpu.memory_mib, Number(object, "memMiB", kMaxGpuMemoryMib));
  KRUX_ASSIGN_OR_RETURN(const uint64_t cores, Number(object, "cores", 100));
  KRUX_ASSIGN_OR_RETURN(const std::string policy, Text(object, "policy"));
  KRUX_ASSIGN_OR_RETURN(const std::string priority, Text(object, "priority"));
  gpu.cores = static_cast<uint32_t>(cores);
  if (!ParseGpuUuid(gpu.uuid) || gpu.memory_mib == 0) return Damaged("a GPU's grant is impossible");
  auto parsed_policy = ParseComputePolicy(policy);
  auto parsed_priority = ParsePriority(priority);
  if (!parsed_policy || !parsed_priority) return Damaged("a policy or priority is unknown");
  gpu.policy = *parsed_policy;
  gpu.priority = *parsed_priority;
  return gpu;
}

Result<LedgerContainer> ParseContainer(const json& object) {
  if (!object.is_object()) return Damaged("a container is not an object");
  LedgerContainer container;
  KRUX_ASSIGN_OR_RETURN(container.name, Text(object, "name"));
  KRUX_ASSIGN_OR_RETURN(container.id, Text(object, "id"));
  KRUX_ASSIGN_OR_RETURN(container.cgroups_path, Text(object, "cgroup"));
  KRUX_ASSIGN_OR_RETURN(const uint64_t kind, Number(object, "kind", 2));
  KRUX_ASSIGN_OR_RETURN(const uint64_t owner, Number(object, "owner", UINT32_MAX));
  container.kind = static_cast<ContainerKind>(kind);
  container.owner = static_cast<uint32_t>(owner);
  KRUX_ASSIGN_OR_RETURN(const json* gpus, List(object, "gpus", kMaxGpusPerContainer));
  for (const json& entry : *gpus) {
    KRUX_ASSIGN_OR_RETURN(GpuGrant gpu, ParseGpu(entry));
    container.gpus.push_back(std::move(gpu));
  }
  return container;
}

Result<LedgerPod> ParsePod(const json& object) {
  if (!object.is_object()) return Damaged("a pod is not an object");
  LedgerPod pod;
  KRUX_ASSIGN_OR_RETURN(pod.uid, Text(object, "uid"));
  KRUX_ASSIGN_OR_RETURN(pod.name_space, Text(object, "namespace"));
  KRUX_ASSIGN_OR_RETURN(pod.name, Text(object, "name"));
  KRUX_ASSIGN_OR_RETURN(pod.generation, Number(object, "gen", UINT64_MAX));
  const auto is_private = object.find("private");
  if (is_private == object.end() || !is_private->is_boolean())
    return Damaged("'private' is missing");
  pod.is_private = is_private->get<bool>();
  KRUX_ASSIGN_OR_RETURN(const json* containers, List(object, "containers", kMaxGrantContainers));
  for (const json& entry : *containers) {
    KRUX_ASSIGN_OR_RETURN(LedgerContainer container, ParseContainer(entry));
    pod.containers.push_back(std::move(container));
  }
  return pod;
}

json ToJsonValue(const LedgerContainer& container) {
  json gpus = json::array();
  for (const GpuGrant& gpu : container.gpus) {
    gpus.push_back({{"uuid", gpu.uuid},
                    {"memMiB", gpu.memory_mib},
                    {"cores", gpu.cores},
                    {"policy", ComputePolicyName(gpu.policy)},
                    {"priority", PriorityName(gpu.priority)}});
  }
  return json{{"name", container.name},   {"kind", static_cast<int>(container.kind)},
              {"id", container.id},       {"cgroup", container.cgroups_path},
              {"owner", container.owner}, {"gpus", std::move(gpus)}};
}

GpuLoad Max(const GpuLoad& a, const GpuLoad& b) {
  return GpuLoad{std::max(a.memory_mib, b.memory_mib), std::max(a.cores, b.cores)};
}

GpuLoad Plus(const GpuLoad& a, const GpuLoad& b) {
  return GpuLoad{a.memory_mib + b.memory_mib, a.cores + b.cores};
}

GpuLoad LoadOfContainer(const LedgerContainer& container, const std::string& gpu_uuid) {
  GpuLoad load;
  for (const GpuGrant& gpu : container.gpus) {
    if (gpu.uuid == gpu_uuid) load = Plus(load, GpuLoad{gpu.memory_mib, gpu.cores});
  }
  return load;
}

}  // namespace

LedgerContainer* LedgerPod::Find(const std::string& container) {
  for (LedgerContainer& c : containers) {
    if (c.name == container) return &c;
  }
  return nullptr;
}

const LedgerContainer* LedgerPod::Find(const std::string& container) const {
  return const_cast<LedgerPod*>(this)->Find(container);
}

bool LedgerPod::AnyAlive() const {
  return std::any_of(containers.begin(), containers.end(),
                     [](const LedgerContainer& c) { return !c.id.empty(); });
}

GpuLoad PeakOf(const LedgerPod& pod, const std::string& gpu_uuid) {
  GpuLoad peak;
  GpuLoad sidecars;
  GpuLoad apps;
  for (const LedgerContainer& container : pod.containers) {
    const GpuLoad load = LoadOfContainer(container, gpu_uuid);
    switch (container.kind) {
      case ContainerKind::kInit:
        peak = Max(peak, Plus(sidecars, load));
        break;
      case ContainerKind::kSidecar:
        sidecars = Plus(sidecars, load);
        break;
      case ContainerKind::kApp:
        apps = Plus(apps, load);
        break;
    }
  }
  return Max(peak, Plus(sidecars, apps));
}

const LedgerPod* Ledger::FindPod(const std::string& uid) const {
  const auto found = pods_.find(uid);
  return found == pods_.end() ? nullptr : &found->second;
}

const LedgerContainer* Ledger::FindContainer(const Place& place) const {
  const LedgerPod* pod = FindPod(place.pod_uid);
  return pod == nullptr ? nullptr : pod->Find(place.container);
}

const LedgerPod* Ledger::FindInstance(const std::string& id,
                                      const LedgerContainer** container) const {
  for (const auto& [uid, pod] : pods_) {
    for (const LedgerContainer& c : pod.containers) {
      if (!id.empty() && c.id == id) {
        if (container != nullptr) *container = &c;
        return &pod;
      }
    }
  }
  return nullptr;
}

GpuLoad Ledger::LoadOf(const std::string& gpu_uuid, const std::string& except_uid) const {
  GpuLoad load;
  for (const auto& [uid, pod] : pods_) {
    if (uid != except_uid) load = Plus(load, PeakOf(pod, gpu_uuid));
  }
  return load;
}

std::string Ledger::HoldersOf(const std::string& gpu_uuid, const std::string& except_uid) const {
  std::string text;
  size_t named = 0;
  for (const auto& [uid, pod] : pods_) {
    const GpuLoad peak = PeakOf(pod, gpu_uuid);
    if (uid == except_uid || peak == GpuLoad{}) continue;
    if (++named > kMaxNamedHolders) return text + " and others";
    text += (text.empty() ? "" : ", ") + pod.FullName() + " (" + std::to_string(peak.memory_mib) +
            " MiB, " + std::to_string(peak.cores) + " %)";
  }
  return text.empty() ? "nobody" : text;
}

void Ledger::PutPod(LedgerPod pod) {
  if (const LedgerPod* old = FindPod(pod.uid)) {
    for (LedgerContainer& container : pod.containers) {
      const LedgerContainer* same = old->Find(container.name);
      if (same == nullptr || same->id.empty()) continue;
      container.id = same->id;
      container.cgroups_path = same->cgroups_path;
    }
  }
  pods_[pod.uid] = std::move(pod);
}

Result<std::string> Ledger::SetInstance(const Place& place, const std::string& id,
                                        const std::string& cgroups_path) {
  const auto pod = pods_.find(place.pod_uid);
  LedgerContainer* container = pod == pods_.end() ? nullptr : pod->second.Find(place.container);
  if (container == nullptr) {
    return Error{ErrorCode::kNotFound, "container " + place.container + " is not in the ledger"};
  }
  const LedgerContainer* elsewhere = nullptr;
  if (FindInstance(id, &elsewhere) != nullptr && elsewhere != container) {
    return Error{ErrorCode::kAlreadyExists,
                 "container id " + id + " is in use by another container"};
  }
  std::string replaced = std::exchange(container->id, id);
  container->cgroups_path = cgroups_path;
  if (replaced == id) replaced.clear();
  return replaced;
}

void Ledger::SetShares(const std::string& id, uint32_t cores, ComputePolicy policy) {
  for (auto& [uid, pod] : pods_) {
    for (LedgerContainer& container : pod.containers) {
      if (container.id != id) continue;
      for (GpuGrant& gpu : container.gpus) {
        gpu.cores = cores;
        gpu.policy = policy;
      }
    }
  }
}

void Ledger::ClearInstance(const std::string& id) {
  for (auto& [uid, pod] : pods_) {
    for (LedgerContainer& container : pod.containers) {
      if (container.id != id) continue;
      container.id.clear();
      container.cgroups_path.clear();
    }
  }
}

std::string Ledger::ToJson() const {
  json pods = json::array();
  for (const auto& [uid, pod] : pods_) {
    json containers = json::array();
    for (const LedgerContainer& container : pod.containers) {
      containers.push_back(ToJsonValue(container));
    }
    pods.push_back({{"uid", uid},
                    {"namespace", pod.name_space},
                    {"name", pod.name},
                    {"gen", pod.generation},
                    {"private", pod.is_private},
                    {"containers", std::move(containers)}});
  }
  return json{{"v", 1}, {"pods", std::move(pods)}}.dump(1, ' ', false,
                                                        json::error_handler_t::replace);
}

Result<Ledger> Ledger::Parse(std::string_view text) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Damaged("it is not a JSON object");
  const auto version = root.find("v");
  if (version == root.end() || *version != 1) return Damaged("its version is not 1");
  KRUX_ASSIGN_OR_RETURN(const json* pods, List(root, "pods", kMaxPods));
  Ledger ledger;
  std::set<std::string> ids;
  for (const json& entry : *pods) {
    KRUX_ASSIGN_OR_RETURN(LedgerPod pod, ParsePod(entry));
    for (const LedgerContainer& container : pod.containers) {
      if (!container.id.empty() && !ids.insert(container.id).second) {
        return Damaged("container id " + container.id + " is in it twice");
      }
    }
    if (pod.uid.empty() || ledger.pods_.contains(pod.uid)) return Damaged("a pod is in it twice");
    ledger.pods_.emplace(pod.uid, std::move(pod));
  }
  return ledger;
}

Result<Ledger> LoadLedger(const std::string& path) {
  auto text = ReadFile(path, kMaxLedgerBytes);
  if (!text && text.error().code == ErrorCode::kNotFound) return Ledger();
  if (!text) return text.error();
  auto ledger = Ledger::Parse(*text);
  if (ledger) return ledger;
  return Damaged("the ledger " + path + " is damaged (" + ledger.error().message +
                 "): delete the pods that use GPUs on this node, move the file away and start "
                 "krux-agent again; until then nothing with a GPU starts here");
}

Status SaveLedger(const std::string& path, const Ledger& ledger) {
  return WriteFileDurably(path, ledger.ToJson(), 0600).With("writing the ledger");
}

}  // namespace krux::agent
