#include "cli/installation.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "common/file.h"
#include "gpu/driver.h"

namespace krux::cli {
namespace {

std::string Environment(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::string> OwnFolder() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  if (size <= 0 || size >= static_cast<ssize_t>(sizeof path)) {
    return ErrnoError(errno, "finding the place of the krux program");
  }
  const std::string program(path, static_cast<size_t>(size));
  return program.substr(0, program.rfind('/'));
}

std::string Joined(const std::vector<std::string>& paths) {
  std::string text;
  for (const auto& path : paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

Result<std::string> FirstThere(const std::string& what, const std::vector<std::string>& paths,
                               int mode) {
  for (const auto& path : paths) {
    char resolved[PATH_MAX];
    if (access(path.c_str(), mode) == 0 && realpath(path.c_str(), resolved) != nullptr) {
      return std::string(resolved);
    }
  }
  return Error{ErrorCode::kNotFound,
               what + " is not installed: looked for " + Joined(paths) + "; build or install Krux"};
}

std::vector<std::string> AgentPlaces(const std::string& own) {
  std::vector<std::string> places{own + "/krux-agent", own + "/../libexec/krux/krux-agent"};
  std::istringstream path(Environment("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    if (!folder.empty() && folder.front() == '/') places.push_back(folder + "/krux-agent");
  }
  return places;
}

}  // namespace

Result<Installation> FindInstallation() {
  KRUX_ASSIGN_OR_RETURN(const std::string own, OwnFolder());
  Installation found;
  KRUX_ASSIGN_OR_RETURN(found.agent, FirstThere("krux-agent", AgentPlaces(own), X_OK));
  KRUX_ASSIGN_OR_RETURN(found.limiter,
                        FirstThere("libkrux.so",
                                   {own + "/../lib/libkrux.so", own + "/../lib/krux/libkrux.so",
                                    "/usr/lib/krux/libkrux.so"},
                                   R_OK));
  if (found.limiter.find_first_of(" :") != std::string::npos) {
    return Error{
        ErrorCode::kFailedPrecondition,
        "the path " + found.limiter +
            " has a blank or a colon, which LD_PRELOAD can't hold: install Krux elsewhere"};
  }
  for (const std::string& folder :
       {own + "/../sim", own + "/../lib/krux/sim", std::string("/usr/lib/krux/sim")}) {
    char resolved[PATH_MAX];
    if (access((folder + "/libcuda.so.1").c_str(), R_OK) != 0) continue;
    if (realpath(folder.c_str(), resolved) == nullptr) continue;
    found.sim_libraries = resolved;
    break;
  }
  return found;
}

std::string LocalFolder(const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  if (geteuid() == 0) return "/run/krux-local";
  const std::string runtime = Environment("XDG_RUNTIME_DIR");
  if (!runtime.empty() && runtime.front() == '/') return runtime + "/krux";
  return "/tmp/krux-" + std::to_string(geteuid());
}

Status PrepareFolder(const std::string& folder) {
  KRUX_RETURN_IF_ERROR(MakeDirectories(folder, 0755));
  struct stat about{};
  if (lstat(folder.c_str(), &about) != 0) return ErrnoError(errno, folder);
  const bool ours = about.st_uid == geteuid() || about.st_uid == 0;
  if (!S_ISDIR(about.st_mode) || !ours || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error{ErrorCode::kPermissionDenied,
                 folder + " must be a folder of user " + std::to_string(geteuid()) +
                     " that nobody else can write: remove it or choose another with --run-folder"};
  }
  return Ok();
}

std::string SimFolder(const std::string& local_folder) {
  const std::string chosen = Environment(gpu::kSimFolderVariable);
  if (!chosen.empty() && chosen.front() == '/') return chosen;
  return geteuid() == 0 ? gpu::kSimFolder : local_folder + "/sim";
}

}  // namespace krux::cli
