#include "runtime/real_runtime.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace krux::runtime {
namespace {

constexpr char kDefaultSearchPath[] =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr int kExitNotStarted = 127;

bool IsExecutableFile(const std::string& path) {
  struct stat about{};
  return stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

// Empty when no folder of the list holds it; relative folders don't count.
std::string LookUp(const std::string& name, const std::string& folders) {
  size_t start = 0;
  while (start <= folders.size()) {
    const size_t end = std::min(folders.find(':', start), folders.size());
    const std::string path = folders.substr(start, end - start) + "/" + name;
    if (path[0] == '/' && end > start && IsExecutableFile(path)) return path;
    start = end + 1;
  }
  return {};
}

bool IsThisProgram(const std::string& path) {
  struct stat self{};
  struct stat other{};
  return stat("/proc/self/exe", &self) == 0 && stat(path.c_str(), &other) == 0 &&
         self.st_dev == other.st_dev && self.st_ino == other.st_ino;
}

// By what the path leads to: a link named runc can hide one.
bool IsVendorRuntime(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  const std::string target = real == nullptr ? path : real;
  free(real);
  return target.substr(target.rfind('/') + 1).starts_with("nvidia-container-runtime");
}

std::vector<char*> Pointers(const std::string& path, const std::vector<std::string>& arguments) {
  std::vector<char*> pointers = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<RealRuntime> RealRuntime::Find(const std::string& configured,
                                      const std::string& search_path) {
  const std::string path =
      configured[0] == '/'
          ? configured
          : LookUp(configured, search_path.empty() ? kDefaultSearchPath : search_path);
  if (path.empty() || !IsExecutableFile(path)) {
    return Error{ErrorCode::kNotFound, "the OCI runtime '" + configured +
                                           "' is not installed; install runc or name another in "
                                           "krux-runtime's configuration"};
  }
  if (IsThisProgram(path)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the configured OCI runtime " + path + " is krux-runtime itself"};
  }
  if (IsVendorRuntime(path)) {
    return Error{ErrorCode::kInvalidArgument,
                 "the configured OCI runtime " + path +
                     " is a vendor runtime, which gives GPUs to "
                     "whoever sets a variable; configure plain runc or crun"};
  }
  return RealRuntime(path);
}

Error RealRuntime::Become(const std::vector<std::string>& arguments) const {
  execv(path_.c_str(), Pointers(path_, arguments).data());
  return ErrnoError(errno, "starting " + path_);
}

Result<int> RealRuntime::Run(const std::vector<std::string>& arguments) const {
  std::vector<char*> pointers = Pointers(path_, arguments);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return ErrnoError(errno, "starting " + path_);
  if (child == 0) {
    // Whoever kills this process means the runtime that it stands for.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) execv(path_.c_str(), pointers.data());
    _exit(kExitNotStarted);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoError(errno, "waiting for " + path_);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace krux::runtime
