#include "runtime/modifiers/devices.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>

namespace krux::runtime {
namespace {

constexpr int64_t kNvidiaMajor = 195;  // fixed in the kernel's list; nvidia-uvm has a dynamic one

std::optional<int64_t> NumberIn(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

std::string TextIn(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return {};
  return found->get<std::string>();
}

bool IsGpuNode(const Json& device) {
  return device.is_object() &&
         (TextIn(device, "path").starts_with("/dev/nvidia") ||
          (TextIn(device, "type") != "b" && NumberIn(device, "major") == kNvidiaMajor));
}

// An allow rule for the NVIDIA major, or for exactly one of the `removed` nodes.
bool IsGpuRule(const Json& rule, const std::vector<Json>& removed) {
  if (!rule.is_object() || TextIn(rule, "type") == "b") return false;
  const auto allow = rule.find("allow");
  if (allow == rule.end() || *allow != true) return false;
  const auto major = NumberIn(rule, "major");
  if (!major) return false;
  if (*major == kNvidiaMajor) return true;
  const auto minor = NumberIn(rule, "minor");
  return std::any_of(removed.begin(), removed.end(), [&](const Json& device) {
    return NumberIn(device, "major") == major && NumberIn(device, "minor") == minor;
  });
}

Result<Json*> RulesOf(Json& spec) {
  KRUX_ASSIGN_OR_RETURN(Json * linux_part, ObjectIn(spec, "linux"));
  KRUX_ASSIGN_OR_RETURN(Json * resources, ObjectIn(*linux_part, "resources"));
  return ArrayIn(*resources, "devices");
}

Result<Json*> NodesOf(Json& spec) {
  KRUX_ASSIGN_OR_RETURN(Json * linux_part, ObjectIn(spec, "linux"));
  return ArrayIn(*linux_part, "devices");
}

template <typename Predicate>
void EraseIf(Json& list, Predicate predicate) {
  auto& entries = list.get_ref<Json::array_t&>();
  entries.erase(std::remove_if(entries.begin(), entries.end(), predicate), entries.end());
}

// The list at `path`, or null when the spec has none: nothing is made where nothing is.
Result<Json*> ListAt(Json& spec, const char* path) {
  const Json::json_pointer pointer(path);
  if (!spec.contains(pointer) || spec[pointer].is_null()) return nullptr;
  if (!spec[pointer].is_array()) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string("the OCI spec has a '") + path + "' that is not a list"};
  }
  return &spec[pointer];
}

// The entry of linux.devices for a node of this host.
Result<Json> HostDevice(const std::string& path) {
  if (!path.starts_with("/dev/") || path.find("/..") != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument, "'" + path + "' is not the path of a device node"};
  }
  struct stat about{};
  if (stat(path.c_str(), &about) != 0) return ErrnoError(errno, "granted device " + path);
  if (!S_ISCHR(about.st_mode)) {
    return Error{ErrorCode::kFailedPrecondition,
                 "granted device " + path + " is not a character device on this host"};
  }
  return Json{{"path", path},
              {"type", "c"},
              {"major", gnu_dev_major(about.st_rdev)},
              {"minor", gnu_dev_minor(about.st_rdev)},
              {"fileMode", about.st_mode & 0777},
              {"uid", about.st_uid},
              {"gid", about.st_gid}};
}

}  // namespace

Status RemoveGpuDevices(Json& spec) {
  KRUX_ASSIGN_OR_RETURN(Json * nodes, ListAt(spec, "/linux/devices"));
  KRUX_ASSIGN_OR_RETURN(Json * rules, ListAt(spec, "/linux/resources/devices"));
  std::vector<Json> removed;
  if (nodes != nullptr) {
    std::copy_if(nodes->begin(), nodes->end(), std::back_inserter(removed), IsGpuNode);
    EraseIf(*nodes, IsGpuNode);
  }
  if (rules != nullptr) {
    EraseIf(*rules, [&](const Json& rule) { return IsGpuRule(rule, removed); });
  }
  return Ok();
}

Status AddDevices(Json& spec, const std::vector<std::string>& nodes) {
  std::vector<Json> devices;
  for (const std::string& path : nodes) {
    KRUX_ASSIGN_OR_RETURN(Json device, HostDevice(path));
    devices.push_back(std::move(device));
  }
  KRUX_ASSIGN_OR_RETURN(Json * list, NodesOf(spec));
  for (const Json& device : devices) {
    EraseIf(*list, [&](const Json& other) {
      return other.is_object() && TextIn(other, "path") == TextIn(device, "path");
    });
    list->push_back(device);
  }
  KRUX_ASSIGN_OR_RETURN(Json * rules, RulesOf(spec));
  for (const Json& device : devices) {
    rules->push_back({{"allow", true},
                      {"type", "c"},
                      {"major", device["major"]},
                      {"minor", device["minor"]},
                      {"access", "rwm"}});
  }
  return Ok();
}

bool AllowsEveryDevice(const Json& spec) {
  const Json::json_pointer path("/linux/resources/devices");
  if (!spec.contains(path) || !spec[path].is_array()) return false;
  return std::any_of(spec[path].begin(), spec[path].end(), [](const Json& rule) {
    if (!rule.is_object()) return false;
    const auto allow = rule.find("allow");
    const auto is_any = [&rule](const char* name) { return NumberIn(rule, name).value_or(-1) < 0; };
    return allow != rule.end() && *allow == true && TextIn(rule, "type") != "b" &&
           is_any("major") && is_any("minor") &&
           TextIn(rule, "access").find_first_of("rw") != std::string::npos;
  });
}

}  // namespace krux::runtime
