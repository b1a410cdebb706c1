// Processes of containers, as the kernel tells of them: who a pid is, whether it lives, and which
// container it belongs to. Needs the agent in a pid namespace that sees the containers' processes.
//
// Thread rule: functions without state; a walk over /proc takes milliseconds.
#ifndef KRUX_AGENT_PROCESSES_H_
#define KRUX_AGENT_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "common/fd.h"
#include "common/result.h"

namespace krux::agent {

// A pid alone can be given out again: with its start time (ticks since boot) it is one process.
struct ProcessId {
  pid_t pid = 0;
  uint64_t start = 0;
  bool operator==(const ProcessId&) const = default;
};

// A pidfd becomes readable when the process ends. kNotFound when it is gone already.
Result<UniqueFd> OpenPidfd(pid_t pid);
bool HasEnded(int pidfd);
Result<uint64_t> StartTimeOf(pid_t pid);

// Whether /proc/<pid>/cgroup puts the process into the container's cgroup (or below it).
// `cgroups_path` is linux.cgroupsPath of the OCI spec: "/kubepods/…/<id>" or, with the systemd
// driver, "slice:prefix:<id>". kPermissionDenied says what was found instead.
Status CheckInContainer(pid_t pid, const std::string& container_id,
                        const std::string& cgroups_path);
// The pure part: the text of a /proc/<pid>/cgroup file against the container.
bool CgroupTextNames(const std::string& text, const std::string& container_id,
                     const std::string& cgroups_path);

// Of these containers (id -> cgroups path) those that have a living process: one walk over /proc.
Result<std::set<std::string>> FindAlive(const std::map<std::string, std::string>& containers);

}  // namespace krux::agent

#endif  // KRUX_AGENT_PROCESSES_H_
