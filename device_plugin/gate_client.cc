#include "device_plugin/gate_client.h"

#include <algorithm>

#include "common/clock.h"
#include "common/unix_socket.h"
#include "protocol/agent_api.h"

namespace krux::device_plugin {
namespace {

constexpr int kSliceMs = 100;

Error AgentAway(const std::string& detail) {
  return Error{
      ErrorCode::kUnavailable,
      "the Krux agent on this node is not running; the container starts when it is back (" +
          detail + ")"};
}

Error Withdrawn() {
  return Error{ErrorCode::kUnavailable, "the kubelet has withdrawn the question"};
}

Result<UniqueFd> ConnectPatiently(const std::string& agent_socket, Nanos deadline,
                                  const std::function<bool()>& cancelled) {
  while (!cancelled()) {
    Result<UniqueFd> socket = ConnectUnix(agent_socket);
    if (socket) return socket;
    if (MonotonicNow() >= deadline) return AgentAway(socket.error().message);
    poll(nullptr, 0, kSliceMs);
  }
  return Withdrawn();
}

Status AwaitAnswer(int socket, Nanos deadline, const std::function<bool()>& cancelled) {
  while (!cancelled()) {
    const Nanos left_ms = (deadline - MonotonicNow()) / kMillisecond;
    if (left_ms <= 0) {
      return Error{ErrorCode::kDeadlineExceeded,
                   "the Krux agent has not answered yet; the kubelet asks again"};
    }
    const Result<Message> answer =
        ReceiveMessage(socket, static_cast<int>(std::min<Nanos>(left_ms, kSliceMs)));
    if (!answer && answer.error().code == ErrorCode::kDeadlineExceeded) continue;
    if (!answer) return AgentAway(answer.error().message);
    if (answer->bytes.empty()) return AgentAway("it ended before it answered");
    return api::ParseEmptyAnswer(answer->bytes);
  }
  return Withdrawn();
}

}  // namespace

Status AskGate(const std::string& agent_socket, const std::vector<std::string>& device_ids,
               const GateLimits& limits, const std::function<bool()>& cancelled) {
  const Nanos start = MonotonicNow();
  KRUX_ASSIGN_OR_RETURN(
      const UniqueFd socket,
      ConnectPatiently(agent_socket, start + limits.agent_ms * kMillisecond, cancelled));
  const std::string request = api::RequestToJson(api::GateRequest{device_ids});
  if (const Status sent = SendMessage(socket.get(), request); !sent) {
    const bool too_long = sent.error().code == ErrorCode::kInvalidArgument;
    return too_long ? sent : AgentAway(sent.error().message);
  }
  return AwaitAnswer(socket.get(), start + limits.answer_ms * kMillisecond, cancelled);
}

}  // namespace krux::device_plugin
