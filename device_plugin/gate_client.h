// Asks the agent whether a container with these slots may start (protocol/agent_api.h, op "gate").
// The agent answers when grant, room and health are there, or says why not; the kubelet tries again.
//
// Thread rule: thread-safe (no state). Blocks for at most kGateTimeoutMs; ends within 100 ms once
// `cancelled` says that the kubelet has gone, and the agent sees that by the end of the connection.
#ifndef KRUX_DEVICE_PLUGIN_GATE_CLIENT_H_
#define KRUX_DEVICE_PLUGIN_GATE_CLIENT_H_

#include <functional>
#include <string>
#include <vector>

#include "common/result.h"

namespace krux::device_plugin {

constexpr int kGateTimeoutMs = 28'000;  // the kubelet's own limit is 30 s

Status AskGate(const std::string& agent_socket, const std::vector<std::string>& device_ids,
               int timeout_ms, const std::function<bool()>& cancelled);

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_GATE_CLIENT_H_
