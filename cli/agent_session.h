// The command line's dealings with an agent: find one, start the local one when there is none, ask
// it for a private container and hold that as long as the session lives.
// Thread rule: one thread (it forks).
#ifndef KRUX_CLI_AGENT_SESSION_H_
#define KRUX_CLI_AGENT_SESSION_H_

#include <string>

#include "cli/installation.h"
#include "cli/run_plan.h"
#include "common/fd.h"
#include "common/result.h"
#include "protocol/agent_api.h"

namespace krux::cli {

// A granted private container. Closing `connection` gives it back.
struct Session {
  UniqueFd connection;
  api::RunAnswer answer;
  std::string sim_folder;  // for KRUX_SIM_FOLDER when the simulated card is used
};

// The agent of this node (/run/krux), when it answers and no folder was chosen, so that one arbiter
// rules each card; else the local agent, started when it is not there. Errors are sentences for the
// user.
Result<Session> OpenSession(const RunPlan& plan);

// Status of the node's or the local agent as JSON text; kUnavailable when none runs. Starts none.
Result<std::string> AskStatus(const std::string& run_folder);

// Gives a living container other shares; the node's agent or the local one, as for status.
Status SetShares(const std::string& run_folder, const api::SetRequest& request);

}  // namespace krux::cli

#endif  // KRUX_CLI_AGENT_SESSION_H_
