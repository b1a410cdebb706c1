#include "runtime/modifiers/mounts.h"

#include <sys/stat.h>

#include <cerrno>

namespace krux::runtime {
namespace {

Error Refused(const std::string& message) { return Error{ErrorCode::kFailedPrecondition, message}; }

Error Covered(const std::string& volume, const std::string& target) {
  return Refused("a volume is mounted at " + volume + ", where Krux must put " + target +
                 "; mount it elsewhere");
}

bool IsCleanPath(const std::string& path) {
  return path.size() > 1 && path[0] == '/' && path.back() != '/' &&
         path.find("//") == std::string::npos && (path + "/").find("/../") == std::string::npos &&
         (path + "/").find("/./") == std::string::npos && path.find('\0') == std::string::npos;
}

bool IsBelow(const std::string& path, const std::string& folder) {
  return folder == "/" ? path.size() > 1
                       : path.size() > folder.size() && path.starts_with(folder) &&
                             path[folder.size()] == '/';
}

Result<std::string> DestinationOf(const Json& mount) {
  const auto found = mount.is_object() ? mount.find("destination") : mount.end();
  if (!mount.is_object() || found == mount.end() || !found->is_string()) {
    return Error{ErrorCode::kInvalidArgument, "the OCI spec has a mount without a destination"};
  }
  return found->get<std::string>();
}

// A tmpfs is made empty for this container alone: creating a mount point in it touches nobody.
bool IsOwnTmpfs(const Json& mount) {
  const auto type = mount.find("type");
  return type != mount.end() && *type == "tmpfs";
}

Status CheckTypes(const std::string& source, const std::string& target,
                  const ImageRoot::Place& place) {
  struct stat about{};
  if (stat(source.c_str(), &about) != 0) return ErrnoError(errno, source + " of this host");
  if (!S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)) {
    return Refused(source + " of this host is neither a file nor a folder");
  }
  const auto wanted = S_ISDIR(about.st_mode) ? ImageRoot::Type::kFolder : ImageRoot::Type::kFile;
  if (place.type != ImageRoot::Type::kMissing && place.type != wanted) {
    return Refused("the image has something at " + target +
                   " that Krux can't mount over; remove it");
  }
  return Ok();
}

}  // namespace

Status MountPlan::CheckOthers(const std::string& target) {
  KRUX_ASSIGN_OR_RETURN(Json * mounts, ArrayIn(spec_, "mounts"));
  auto& entries = mounts->get_ref<Json::array_t&>();
  for (auto entry = entries.begin(); entry != entries.end();) {
    KRUX_ASSIGN_OR_RETURN(const std::string destination, DestinationOf(*entry));
    KRUX_ASSIGN_OR_RETURN(const ImageRoot::Place place, root_.Locate(destination));
    if (place.path == target) {
      entry = entries.erase(entry);
      continue;
    }
    if (IsBelow(target, place.path) && !IsOwnTmpfs(*entry)) {
      return Covered(destination, target);
    }
    ++entry;
  }
  return Ok();
}

Status MountPlan::Bind(const std::string& source, const std::string& target, Options options) {
  if (!IsCleanPath(source) || !IsCleanPath(target)) {
    return Error{ErrorCode::kInvalidArgument,
                 "mount of '" + source + "' on '" + target + "' needs clean absolute paths"};
  }
  KRUX_ASSIGN_OR_RETURN(const ImageRoot::Place place, root_.Locate(target));
  if (place.through_link && options.links == Links::kRefused) {
    return Refused("the image has a symbolic link in " + target +
                   ", where Krux mounts a file of its own; replace the link by a file or folder");
  }
  KRUX_RETURN_IF_ERROR(CheckTypes(source, target, place));
  KRUX_RETURN_IF_ERROR(CheckOthers(place.path));
  Json flags = {"bind", options.access == Access::kReadOnly ? "ro" : "rw", "nosuid", "nodev",
                "rprivate"};
  if (options.execution == Execution::kDenied) flags.push_back("noexec");
  planned_.push_back({{"destination", place.path},
                      {"type", "bind"},
                      {"source", source},
                      {"options", std::move(flags)}});
  return Ok();
}

Status MountPlan::Finish() {
  KRUX_ASSIGN_OR_RETURN(Json * mounts, ArrayIn(spec_, "mounts"));
  for (Json& mount : planned_) mounts->push_back(std::move(mount));
  planned_.clear();
  return Ok();
}

}  // namespace krux::runtime
