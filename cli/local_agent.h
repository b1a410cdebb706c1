// Starts the private agent (`krux-agent --local`) that all `krux run` of one folder share.
// Thread rule: one thread (it forks).
#ifndef KRUX_CLI_LOCAL_AGENT_H_
#define KRUX_CLI_LOCAL_AGENT_H_

#include <string>

#include "common/result.h"

namespace krux::cli {

// Returns when an agent answers on <folder>/agent.sock. Several callers at once start one agent: a
// file lock lets one of them look and start, and the others look again after it. The agent is a
// session of its own, so that a Ctrl-C in the terminal does not reach it; it ends by itself when
// its last client has gone. What it says lies in <folder>/agent.log.
// `driver` is auto, nvidia or sim, and matters only when an agent is started.
Status EnsureLocalAgent(const std::string& folder, const std::string& driver,
                        const std::string& sim_folder);

}  // namespace krux::cli

#endif  // KRUX_CLI_LOCAL_AGENT_H_
