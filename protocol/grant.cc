#include "protocol/grant.h"

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace krux {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, ComputePolicy>, 3> kPolicies = {
    {{"balance", ComputePolicy::kBalance},
     {"fixed", ComputePolicy::kFixed},
     {"none", ComputePolicy::kNone}}};
constexpr std::array<std::pair<std::string_view, Priority>, 3> kPriorities = {
    {{"latency", Priority::kLatency}, {"normal", Priority::kNormal}, {"batch", Priority::kBatch}}};

Error Invalid(const std::string& message) {
  return Error{ErrorCode::kInvalidArgument, "grant: " + message};
}

// Text of others in a message: short and printable.
std::string Quote(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text.substr(0, 64)) quoted += (c >= ' ' && c < 127) ? c : '?';
  return quoted + (text.size() > 64 ? "…'" : "'");
}

Result<std::string> TextField(const json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_string()) {
    return Invalid(std::string("'") + name + "' is missing or is not a text");
  }
  return field->get<std::string>();
}

Result<uint64_t> NumberField(const json& object, const char* name, uint64_t low, uint64_t high) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_number_unsigned()) {
    return Invalid(std::string("'") + name + "' is missing or is not a whole number");
  }
  const auto value = field->get<uint64_t>();
  if (value < low || value > high) {
    return Invalid(std::string("'") + name + "' is " + std::to_string(value) + ", allowed are " +
                   std::to_string(low) + " to " + std::to_string(high));
  }
  return value;
}

Result<GpuGrant> ParseGpu(const json& object) {
  if (!object.is_object()) return Invalid("a GPU entry is not an object");
  GpuGrant gpu;
  KRUX_ASSIGN_OR_RETURN(gpu.uuid, TextField(object, "uuid"));
  KRUX_RETURN_IF_ERROR(ParseGpuUuid(gpu.uuid));
  KRUX_ASSIGN_OR_RETURN(gpu.memory_mib, NumberField(object, "memMiB", 1, kMaxGpuMemoryMib));
  KRUX_ASSIGN_OR_RETURN(const uint64_t cores, NumberField(object, "cores", 0, 100));
  gpu.cores = static_cast<uint32_t>(cores);
  KRUX_ASSIGN_OR_RETURN(const std::string policy, TextField(object, "policy"));
  KRUX_ASSIGN_OR_RETURN(gpu.policy, ParseComputePolicy(policy));
  KRUX_ASSIGN_OR_RETURN(const std::string priority, TextField(object, "priority"));
  KRUX_ASSIGN_OR_RETURN(gpu.priority, ParsePriority(priority));
  return gpu;
}

Result<std::vector<GpuGrant>> ParseContainer(const json& list) {
  if (!list.is_array() || list.empty() || list.size() > kMaxGpusPerContainer) {
    return Invalid("a container's value is not a list of 1 to " +
                   std::to_string(kMaxGpusPerContainer) + " GPUs");
  }
  std::vector<GpuGrant> gpus;
  std::set<std::string> seen;
  for (const json& entry : list) {
    KRUX_ASSIGN_OR_RETURN(GpuGrant gpu, ParseGpu(entry));
    if (!seen.insert(gpu.uuid).second) return Invalid("GPU " + gpu.uuid + " is named twice");
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

}  // namespace

Result<PodGrant> ParseGrant(std::string_view text) {
  if (text.size() > kMaxGrantBytes) {
    return Invalid("larger than " + std::to_string(kMaxGrantBytes) + " bytes");
  }
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Invalid("not a JSON object: " + Quote(text));
  KRUX_ASSIGN_OR_RETURN(const uint64_t version, NumberField(root, "v", 0, UINT64_MAX));
  if (version != 1) {
    return Invalid("version " + std::to_string(version) + " is not known here (1 is): update Krux");
  }
  PodGrant grant;
  KRUX_ASSIGN_OR_RETURN(grant.pod_uid, TextField(root, "podUID"));
  KRUX_ASSIGN_OR_RETURN(grant.node, TextField(root, "node"));
  KRUX_ASSIGN_OR_RETURN(grant.generation, NumberField(root, "gen", 0, UINT64_MAX));
  if (grant.pod_uid.empty() || grant.node.empty()) return Invalid("'podUID' or 'node' is empty");
  const auto containers = root.find("containers");
  if (containers == root.end() || !containers->is_object() || containers->empty() ||
      containers->size() > kMaxGrantContainers) {
    return Invalid("'containers' is not an object of 1 to " + std::to_string(kMaxGrantContainers) +
                   " containers");
  }
  for (const auto& [name, list] : containers->items()) {
    auto gpus = ParseContainer(list);
    if (!gpus) return gpus.error().With("container " + Quote(name));
    grant.containers.emplace(name, std::move(*gpus));
  }
  return grant;
}

std::string GrantToJson(const PodGrant& grant) {
  json containers = json::object();
  for (const auto& [name, gpus] : grant.containers) {
    json list = json::array();
    for (const GpuGrant& gpu : gpus) {
      list.push_back({{"uuid", gpu.uuid},
                      {"memMiB", gpu.memory_mib},
                      {"cores", gpu.cores},
                      {"policy", ComputePolicyName(gpu.policy)},
                      {"priority", PriorityName(gpu.priority)}});
    }
    containers[name] = std::move(list);
  }
  return json{{"v", 1},
              {"podUID", grant.pod_uid},
              {"node", grant.node},
              {"gen", grant.generation},
              {"containers", std::move(containers)}}
      .dump();
}

Result<ComputePolicy> ParseComputePolicy(std::string_view text) {
  for (const auto& [name, policy] : kPolicies) {
    if (name == text) return policy;
  }
  return Error{ErrorCode::kInvalidArgument,
               "compute policy " + Quote(text) + " is unknown: use balance, fixed or none"};
}

std::string_view ComputePolicyName(ComputePolicy policy) {
  for (const auto& [name, value] : kPolicies) {
    if (value == policy) return name;
  }
  return "unknown";
}

Result<Priority> ParsePriority(std::string_view text) {
  for (const auto& [name, priority] : kPriorities) {
    if (name == text) return priority;
  }
  return Error{ErrorCode::kInvalidArgument,
               "priority " + Quote(text) + " is unknown: use latency, normal or batch"};
}

std::string_view PriorityName(Priority priority) {
  for (const auto& [name, value] : kPriorities) {
    if (value == priority) return name;
  }
  return "unknown";
}

Result<UuidBytes> ParseGpuUuid(std::string_view text) {
  constexpr std::string_view kForm = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  const Error wrong{ErrorCode::kInvalidArgument,
                    "GPU UUID " + Quote(text) + " is not of the form " + std::string(kForm)};
  if (text.size() != kForm.size()) return wrong;
  UuidBytes uuid;
  size_t digits = 0;
  for (size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] != 'x') {
      if (text[i] != kForm[i]) return wrong;
      continue;
    }
    const char c = text[i];
    int value = -1;
    if (c >= '0' && c <= '9') value = c - '0';
    if (c >= 'a' && c <= 'f') value = c - 'a' + 10;
    if (value < 0) return wrong;
    uint8_t& byte = uuid.bytes[digits / 2];
    byte = static_cast<uint8_t>((byte << 4) | value);
    ++digits;
  }
  return uuid;
}

std::string FormatGpuUuid(const UuidBytes& uuid) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kHex[uuid.bytes[i] >> 4];
    text += kHex[uuid.bytes[i] & 15];
  }
  return text;
}

}  // namespace krux
