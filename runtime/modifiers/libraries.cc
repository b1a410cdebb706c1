#include "runtime/modifiers/libraries.h"

#include <fcntl.h>

#include <cerrno>

#include "common/fd.h"
#include "protocol/names.h"
#include "runtime/elf.h"

namespace krux::runtime {
namespace {

Status CheckHostLibrary(const std::string& path) {
  if (path.empty() || path[0] != '/') {
    return Error{ErrorCode::kInvalidArgument, "'" + path + "' is not an absolute path"};
  }
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "opening " + path + " of this host");
  const auto file = ElfFromFd(fd.get());
  if (!file) return file.error().With(path + " of this host");
  if (const Status usable = CheckLibrary(*file); !usable) {
    return Error{ErrorCode::kFailedPrecondition,
                 path + " of this host " + usable.error().message + "; reinstall it on the node"};
  }
  return Ok();
}

}  // namespace

Status AddDriverFiles(MountPlan& plan, const std::vector<std::string>& files,
                      const std::string& folder) {
  for (const std::string& path : files) {
    KRUX_RETURN_IF_ERROR(CheckHostLibrary(path).With("driver library"));
    std::string target = folder;
    target += path.substr(path.rfind('/'));
    // Images that once ran under other tools keep libcuda.so.1 as a link: it is followed.
    KRUX_RETURN_IF_ERROR(plan.Bind(
        path, target,
        {.execution = MountPlan::Execution::kAllowed, .links = MountPlan::Links::kFollowed}));
  }
  return Ok();
}

Status AddLimiter(MountPlan& plan, const std::string& limiter_path) {
  KRUX_RETURN_IF_ERROR(CheckHostLibrary(limiter_path).With("limiter"));
  return plan.Bind(limiter_path, names::kLimiterInContainer,
                   {.execution = MountPlan::Execution::kAllowed});
}

}  // namespace krux::runtime
