// The command that `krux run` runs: its environment, its start, and the wait for its end.
// Thread rule: one thread (it forks and blocks signals).
#ifndef KRUX_CLI_CHILD_H_
#define KRUX_CLI_CHILD_H_

#include <string>
#include <vector>

#include "cli/agent_session.h"

namespace krux::cli {

// What the shell says for "found but not runnable" and "not found"; 125 is krux's own trouble.
constexpr int kExitTrouble = 125;
constexpr int kExitNotRunnable = 126;
constexpr int kExitNotFound = 127;

// The command's environment: `environment` ("NAME=value" each) with the limiter first in
// LD_PRELOAD, the container's folder, the granted cards as the only visible ones, and, for the
// simulated card, its libraries first in LD_LIBRARY_PATH.
std::vector<std::string> ChildEnvironment(const std::vector<std::string>& environment,
                                          const Session& session);

// Runs the command and waits for it. Signals that were sent to krux alone go on to the command;
// those of the terminal reach it by themselves. The command is killed when krux dies
// (PR_SET_PDEATHSIG), because the grant ends with krux's connection. Returns the command's exit
// code, 128 + n when signal n ended it, or one of the codes above after a message on standard
// error.
int RunChild(const std::vector<std::string>& command, const std::vector<std::string>& environment,
             const Session& session);

}  // namespace krux::cli

#endif  // KRUX_CLI_CHILD_H_
