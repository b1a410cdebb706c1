#include "agent/processes.h"

#include <dirent.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>

#include "common/file.h"

namespace krux::agent {
namespace {

constexpr size_t kMaxProcFile = 64 * 1024;

std::string_view LastPart(std::string_view path) {
  const size_t cut = path.find_last_of("/:");
  return cut == std::string_view::npos ? path : path.substr(cut + 1);
}

// `name` as a whole component of a cgroup path, or as the middle of a systemd scope name.
bool HasComponent(std::string_view path, std::string_view name) {
  for (size_t at = path.find(name); at != std::string_view::npos; at = path.find(name, at + 1)) {
    const char before = at == 0 ? '/' : path[at - 1];
    const size_t end = at + name.size();
    const std::string_view after = path.substr(end);
    const bool starts = before == '/' || before == '-';
    const bool ends = after.empty() || after[0] == '/' || after.starts_with(".scope");
    if (starts && ends) return true;
  }
  return false;
}

Result<uint64_t> ParseStart(std::string_view stat) {
  // Field 22, counted after the command, which is in brackets and may hold anything.
  const size_t bracket = stat.rfind(')');
  const Error damaged{ErrorCode::kInternal, "/proc/<pid>/stat has an unknown form"};
  if (bracket == std::string_view::npos) return damaged;
  std::string_view rest = stat.substr(bracket + 1);
  for (int field = 3; field <= 22; ++field) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const size_t end = std::min(rest.find(' '), rest.size());
    if (field == 22) {
      uint64_t start = 0;
      const auto parsed = std::from_chars(rest.data(), rest.data() + end, start);
      if (parsed.ec != std::errc() || end == 0) return damaged;
      return start;
    }
    rest.remove_prefix(end);
  }
  return damaged;
}

}  // namespace

Result<UniqueFd> OpenPidfd(pid_t pid) {
  if (pid <= 0) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the process can't be seen from the agent's pid namespace: run krux-agent in the "
                 "host's"};
  }
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!fd.valid()) return ErrnoError(errno, "opening process " + std::to_string(pid));
  return fd;
}

bool HasEnded(int pidfd) {
  pollfd waiter{pidfd, POLLIN, 0};
  return poll(&waiter, 1, 0) == 1;
}

Result<uint64_t> StartTimeOf(pid_t pid) {
  KRUX_ASSIGN_OR_RETURN(const std::string stat,
                        ReadFile("/proc/" + std::to_string(pid) + "/stat", kMaxProcFile));
  return ParseStart(stat);
}

bool CgroupTextNames(const std::string& text, const std::string& container_id,
                     const std::string& cgroups_path) {
  const std::string_view leaf = LastPart(cgroups_path);
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    // "<hierarchy>:<controllers>:<path>"
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view path = line.substr(second + 1);
    if (!container_id.empty() && HasComponent(path, container_id)) return true;
    if (!leaf.empty() && HasComponent(path, leaf)) return true;
  }
  return false;
}

Status CheckInContainer(pid_t pid, const std::string& container_id,
                        const std::string& cgroups_path) {
  KRUX_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile("/proc/" + std::to_string(pid) + "/cgroup", kMaxProcFile));
  if (CgroupTextNames(text, container_id, cgroups_path)) return Ok();
  return Error{
      ErrorCode::kPermissionDenied,
      "process " + std::to_string(pid) + " is not in the cgroup of container " + container_id};
}

Result<std::set<std::string>> FindAlive(const std::map<std::string, std::string>& containers) {
  std::set<std::string> alive;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  if (proc == nullptr) return ErrnoError(errno, "reading /proc");
  while (const dirent* entry = readdir(proc.get())) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    const auto text = ReadFile(std::string("/proc/") + entry->d_name + "/cgroup", kMaxProcFile);
    if (!text) continue;  // it has just ended
    for (const auto& [id, path] : containers) {
      if (!alive.contains(id) && CgroupTextNames(*text, id, path)) alive.insert(id);
    }
  }
  return alive;
}

}  // namespace krux::agent
