// `create` and `run`, up to the moment at which the real runtime takes over: reads the bundle, asks
// the agent, edits the spec.
#ifndef KRUX_RUNTIME_CREATE_H_
#define KRUX_RUNTIME_CREATE_H_

#include <optional>

#include "common/result.h"
#include "runtime/agent_client.h"
#include "runtime/args.h"
#include "runtime/config.h"
#include "runtime/runtime_log.h"
#include "runtime/spec.h"

namespace krux::runtime {

// What was done to the bundle, to be undone if the real runtime can't be started.
struct Prepared {
  std::optional<SpecFile> edited;  // empty: config.json was not touched
  bool granted = false;            // the agent holds a grant for this container now
};

// After an error the bundle is as it was, and the agent is told to forget the container.
Result<Prepared> PrepareCreate(const Args& args, const Config& config, const AgentClient& agent,
                               const RuntimeLog& log);

// Puts the spec back and tells the agent that there is no container after all.
void Undo(Prepared& prepared, const Args& args, const AgentClient& agent);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_CREATE_H_
