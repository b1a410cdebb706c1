// Where the parts of Krux that `krux run` needs lie on this machine, and which folder the local
// agent lives in. Thread rule: functions without state.
#ifndef KRUX_CLI_INSTALLATION_H_
#define KRUX_CLI_INSTALLATION_H_

#include <string>

#include "common/result.h"

namespace krux::cli {

struct Installation {
  std::string agent;          // krux-agent
  std::string limiter;        // libkrux.so
  std::string sim_libraries;  // folder of the simulated card's libraries; empty: not installed
};

// Looks beside the running program first (bin/, ../lib, ../sim, ../libexec/krux), then in the
// system's places and, for the agent, in PATH. kNotFound names what is missing and where it was
// looked for.
Result<Installation> FindInstallation();

// The folder of the local agent: `chosen` when it is not empty; else /run/krux-local for root,
// $XDG_RUNTIME_DIR/krux or /tmp/krux-<uid> for others.
std::string LocalFolder(const std::string& chosen);

// Makes the folder, or checks the one that is there: it must be this user's (or root's) and
// writable by nobody else, because whoever writes in it can pose as the agent.
Status PrepareFolder(const std::string& folder);

// Folder with the state of the simulated card: $KRUX_SIM_FOLDER when it is an absolute path, else
// /run/krux-sim for root and "sim" in the local folder for others.
std::string SimFolder(const std::string& local_folder);

}  // namespace krux::cli

#endif  // KRUX_CLI_INSTALLATION_H_
