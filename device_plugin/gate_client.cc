#include "device_plugin/gate_client.h"

#include <algorithm>

#include "common/clock.h"
#include "common/unix_socket.h"
#include "protocol/agent_api.h"

namespace krux::device_plugin {
namespace {

constexpr int kSliceMs = 100;

Error AgentAway(const std::string& detail) {
  return Error{ErrorCode::kUnavailable,
               "the Krux agent on this node is not running; the container starts when it is back (" +
                   detail + ")"};
}

}  // namespace

Status AskGate(const std::string& agent_socket, const std::vector<std::string>& device_ids,
               int timeout_ms, const std::function<bool()>& cancelled) {
  Result<UniqueFd> socket = ConnectUnix(agent_socket);
  if (!socket) return AgentAway(socket.error().message);
  const std::string request = api::RequestToJson(api::GateRequest{device_ids});
  if (const Status sent = SendMessage(socket->get(), request); !sent) {
    return sent.error().code == ErrorCode::kInvalidArgument ? sent
                                                            : AgentAway(sent.error().message);
  }
  const Nanos deadline = MonotonicNow() + timeout_ms * kMillisecond;
  while (!cancelled()) {
    const Nanos left_ms = (deadline - MonotonicNow()) / kMillisecond;
    if (left_ms <= 0) {
      return Error{ErrorCode::kDeadlineExceeded,
                   "the Krux agent has not answered yet; the kubelet asks again"};
    }
    const Result<Message> answer =
        ReceiveMessage(socket->get(), static_cast<int>(std::min<Nanos>(left_ms, kSliceMs)));
    if (!answer && answer.error().code == ErrorCode::kDeadlineExceeded) continue;
    if (!answer) return AgentAway(answer.error().message);
    if (answer->bytes.empty()) return AgentAway("it ended before it answered");
    return api::ParseEmptyAnswer(answer->bytes);
  }
  return Error{ErrorCode::kUnavailable, "the kubelet has withdrawn the question"};
}

}  // namespace krux::device_plugin
