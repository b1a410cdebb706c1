// What krux-runtime asks of the node's agent. An agent that restarts is waited for.
#ifndef KRUX_RUNTIME_AGENT_CLIENT_H_
#define KRUX_RUNTIME_AGENT_CLIENT_H_

#include <functional>
#include <string>

#include "common/clock.h"
#include "protocol/agent_api.h"

namespace krux::runtime {

class AgentClient {
 public:
  // Time and the wire as arguments, for tests.
  struct Io {
    std::function<Result<std::string>(const api::Request& request, int timeout_ms)> ask;
    Clock now;
    std::function<void(Nanos)> pause;
  };

  static AgentClient ForSocket(const std::string& socket_path, int timeout_seconds);
  AgentClient(Io io, Nanos timeout) : io_(std::move(io)), timeout_(timeout) {}

  // The agent's word on this container. An agent that is not there, or goes away before it
  // answered, is asked again until the time is over (kUnavailable); an answered error is final.
  Result<api::CreateAnswer> AskCreate(const api::CreateRequest& request) const;

  // Tells that the container is gone; waits at most 2 seconds, once. An agent that does not hear it
  // finds out by itself.
  Status TellDeleted(const std::string& container_id) const;

 private:
  Io io_;
  Nanos timeout_;
};

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_AGENT_CLIENT_H_
