// Asks the agent whether a container with these slots may start (protocol/agent_api.h, op "gate").
// The agent answers when grant, room and health are there, or says why not; the kubelet tries
// again.
//
// An agent that restarts is waited for inside the call, since the kubelet's next try comes only 10
// to 17 s after an error.
//
// Thread rule: thread-safe (no state). Ends within 100 ms once `cancelled` says that the kubelet
// has gone; the agent sees that by the end of the connection.
#ifndef KRUX_DEVICE_PLUGIN_GATE_CLIENT_H_
#define KRUX_DEVICE_PLUGIN_GATE_CLIENT_H_

#include <functional>
#include <string>
#include <vector>

#include "common/result.h"

namespace krux::device_plugin {

struct GateLimits {
  int answer_ms = 28'000;  // for the whole call; the kubelet's own limit is 30 s
  int agent_ms = 5'000;    // of it, for an agent that is not there
};

Status AskGate(const std::string& agent_socket, const std::vector<std::string>& device_ids,
               const GateLimits& limits, const std::function<bool()>& cancelled);

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_GATE_CLIENT_H_
