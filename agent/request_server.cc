#include "agent/request_server.h"

#include <unistd.h>

#include <utility>

#include "common/log.h"
#include "common/unix_socket.h"

namespace krux::agent {
namespace {

constexpr size_t kMaxCallers = 512;
constexpr Nanos kTimeToAsk = 10 * kSecond;

}  // namespace

void Caller::Answer(const std::string& json) {
  if (server_ == nullptr) return;
  if (auto sent = SendMessage(fd_.get(), json, {}, /*wait=*/false); !sent) {
    KRUX_LOG_WARN("answer not sent pid={} reason=\"{}\"", peer_.pid, sent.error().message);
  }
  server_->Close(this);
}

void Caller::AnswerAndHold(const std::string& json, std::function<void()> gone) {
  if (server_ == nullptr) return gone();
  gone_ = std::move(gone);
  if (!SendMessage(fd_.get(), json, {}, /*wait=*/false)) server_->Close(this);
}

Result<std::unique_ptr<RequestServer>> RequestServer::Listen(EventLoop& loop,
                                                             const std::string& path,
                                                             Handler handler,
                                                             std::function<void()> changed) {
  std::unique_ptr<RequestServer> server(
      new RequestServer(loop, std::move(handler), std::move(changed)));
  KRUX_ASSIGN_OR_RETURN(server->listener_, ListenUnix(path, 0600));
  KRUX_RETURN_IF_ERROR(loop.Watch(server->listener_.get(), [s = server.get()] { s->OnAccept(); }));
  return server;
}

RequestServer::~RequestServer() {
  loop_.Forget(listener_.get());
  for (auto& [fd, caller] : callers_) {
    loop_.Forget(fd);
    loop_.Cancel(caller->hurry_);
    caller->server_ = nullptr;
    caller->fd_.Reset();
  }
}

void RequestServer::OnAccept() {
  while (true) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    if (callers_.size() >= kMaxCallers) continue;
    if (auto admitted = Admit(std::move(fd)); !admitted) {
      KRUX_LOG_WARN("caller refused reason=\"{}\"", admitted.error().message);
    }
  }
}

Status RequestServer::Admit(UniqueFd fd) {
  KRUX_ASSIGN_OR_RETURN(const ucred peer, PeerOf(fd.get()));
  if (peer.uid != 0 && peer.uid != geteuid()) {
    const Error refusal{ErrorCode::kPermissionDenied,
                        "only root and the agent's own user may ask the agent"};
    (void)SendMessage(fd.get(), api::ErrorToJson(refusal), {}, /*wait=*/false);
    return refusal;
  }
  auto caller = std::make_shared<Caller>();
  caller->server_ = this;
  caller->peer_ = peer;
  const int number = fd.get();
  caller->fd_ = std::move(fd);
  KRUX_RETURN_IF_ERROR(loop_.Watch(number, [this, weak = std::weak_ptr<Caller>(caller)] {
    if (auto strong = weak.lock()) OnReadable(strong);
  }));
  caller->hurry_ = loop_.After(kTimeToAsk, [this, weak = std::weak_ptr<Caller>(caller)] {
    if (auto strong = weak.lock(); strong && !strong->has_asked_) Close(strong.get());
  });
  callers_[number] = std::move(caller);
  changed_();
  return Ok();
}

void RequestServer::OnReadable(const std::shared_ptr<Caller>& caller) {
  if (caller->is_gone()) return;
  const auto message = ReceiveMessage(caller->fd_.get(), 0);
  if (!message && message.error().code == ErrorCode::kDeadlineExceeded) return;
  // A second message of a caller is as good as its end: it has asked once.
  if (!message || message->bytes.empty() || caller->has_asked_) return Close(caller.get());
  caller->has_asked_ = true;
  auto request = api::ParseRequest(message->bytes);
  if (!request) return caller->Answer(api::ErrorToJson(request.error()));
  handler_(std::move(*request), caller);
}

void RequestServer::Close(Caller* caller) {
  if (caller->server_ == nullptr) return;
  caller->server_ = nullptr;
  const int number = caller->fd_.get();
  loop_.Forget(number);
  loop_.Cancel(caller->hurry_);
  const auto keep = callers_.find(number);
  const std::shared_ptr<Caller> owner = keep == callers_.end() ? nullptr : keep->second;
  callers_.erase(number);
  caller->fd_.Reset();
  const std::function<void()> gone = std::exchange(caller->gone_, nullptr);
  if (gone) gone();
  changed_();
}

}  // namespace krux::agent
