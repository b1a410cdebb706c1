#include "runtime/agent_client.h"

#include <algorithm>
#include <ctime>

namespace krux::runtime {
namespace {

constexpr Nanos kRetryPause = 100 * kMillisecond;
constexpr int kDeleteTimeoutMs = 2000;

// May the agent be in the middle of a restart?
bool IsPassing(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNotFound;
}

void Sleep(Nanos duration) {
  const timespec time{duration / kSecond, duration % kSecond};
  nanosleep(&time, nullptr);
}

}  // namespace

AgentClient AgentClient::ForSocket(const std::string& socket_path, int timeout_seconds) {
  return AgentClient({[socket_path](const api::Request& request, int timeout_ms) {
                        return api::Ask(socket_path, request, timeout_ms);
                      },
                      MonotonicNow, Sleep},
                     timeout_seconds * kSecond);
}

Result<api::CreateAnswer> AgentClient::AskCreate(const api::CreateRequest& request) const {
  const Nanos deadline = io_.now() + timeout_;
  while (true) {
    const Nanos left = deadline - io_.now();
    auto answer = io_.ask(request, static_cast<int>(std::max<Nanos>(left / kMillisecond, 1)));
    if (answer) return api::ParseCreateAnswer(*answer);
    if (IsPassing(answer.error()) && io_.now() + kRetryPause < deadline) {
      io_.pause(kRetryPause);
      continue;
    }
    return Error{ErrorCode::kUnavailable,
                 answer.error().message +
                     "; the container is not started without its answer: see "
                     "that krux-agent runs on this node"};
  }
}

Status AgentClient::TellDeleted(const std::string& container_id) const {
  const auto answer = io_.ask(api::DeleteRequest{container_id}, kDeleteTimeoutMs);
  if (!answer) return answer.error();
  return api::ParseEmptyAnswer(*answer);
}

}  // namespace krux::runtime
