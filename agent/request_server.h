// The agent's door for the runtime, the device plugin and the command line: agent.sock
// (protocol/agent_api.h). Takes a connection, checks who it is, parses one request and hands it to
// the handler with the caller, who may be answered at once or later.
//
// Thread rule: the loop's thread only.
#ifndef KRUX_AGENT_REQUEST_SERVER_H_
#define KRUX_AGENT_REQUEST_SERVER_H_

#include <sys/socket.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/event_loop.h"
#include "common/fd.h"
#include "common/result.h"
#include "protocol/agent_api.h"

namespace krux::agent {

class RequestServer;

// One connection. It stays valid after the peer or the server has gone; it then answers nobody.
class Caller {
 public:
  const ucred& peer() const { return peer_; }
  bool is_gone() const { return server_ == nullptr; }
  // Sends the answer and closes.
  void Answer(const std::string& json);
  // Sends the answer and holds the connection; `gone` is called once when the peer closes it.
  void AnswerAndHold(const std::string& json, std::function<void()> gone);

 private:
  friend class RequestServer;
  RequestServer* server_ = nullptr;
  UniqueFd fd_;
  ucred peer_{};
  bool has_asked_ = false;
  EventLoop::TimerId hurry_{};
  std::function<void()> gone_;
};

class RequestServer {
 public:
  using Handler = std::function<void(api::Request request, std::shared_ptr<Caller> caller)>;

  // Root and the agent's own user may ask. `changed` is called when a connection came or went.
  static Result<std::unique_ptr<RequestServer>> Listen(EventLoop& loop, const std::string& path,
                                                       Handler handler,
                                                       std::function<void()> changed);
  ~RequestServer();
  RequestServer(const RequestServer&) = delete;
  RequestServer& operator=(const RequestServer&) = delete;

  size_t connections() const { return callers_.size(); }

 private:
  friend class Caller;
  RequestServer(EventLoop& loop, Handler handler, std::function<void()> changed)
      : loop_(loop), handler_(std::move(handler)), changed_(std::move(changed)) {}
  void OnAccept();
  Status Admit(UniqueFd fd);
  void OnReadable(const std::shared_ptr<Caller>& caller);
  void Close(Caller* caller);

  EventLoop& loop_;
  Handler handler_;
  std::function<void()> changed_;
  UniqueFd listener_;
  std::map<int, std::shared_ptr<Caller>> callers_;
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_REQUEST_SERVER_H_
