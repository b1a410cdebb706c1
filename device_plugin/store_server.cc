#include "device_plugin/store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

#include "common/log.h"
#include "common/unix_socket.h"
#include "protocol/agent_api.h"

namespace krux::device_plugin {
namespace {

constexpr int kAskLimitMs = 1000;  // a client that does not speak must not hold up the others

// A client that has gone, or reads nothing, asks again.
void Send(int client, const fd_store::Store::Answer& answer) {
  std::vector<int> fds;
  if (answer.fd >= 0) fds.push_back(answer.fd);
  const Status sent = SendMessage(client, answer.json, fds, /*wait=*/false);
  if (!sent) KRUX_LOG_DEBUG("descriptor store: {}", sent.error().ToString());
}

std::string PutRequest(const std::string& key) {
  return R"({"v":1,"op":"put","key":")" + key + R"("})";
}

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::Start(const std::string& socket_path) {
  std::unique_ptr<StoreServer> server(new StoreServer(socket_path));
  server->wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  KRUX_RETURN_IF_ERROR(server->TakeSocket().With("descriptor store"));
  server->thread_ =
      std::jthread([raw = server.get()](const std::stop_token& stop) { raw->Serve(stop); });
  return server;
}

// Order: copy, put the new socket in the place of the old one in one step, copy what came between.
Status StoreServer::TakeSocket() {
  const std::string fresh = path_ + ".new";
  const std::string previous = path_ + ".old";
  unlink(previous.c_str());
  const bool other_lives = ConnectUnix(path_).has_value();
  if (other_lives) {
    CopyFrom(path_);
    if (link(path_.c_str(), previous.c_str()) != 0) {
      return ErrnoError(errno, "keeping the older instance's socket");
    }
  }
  unlink(fresh.c_str());
  KRUX_ASSIGN_OR_RETURN(UniqueFd listener, ListenUnix(fresh, 0600));
  if (rename(fresh.c_str(), path_.c_str()) != 0) return ErrnoError(errno, "renaming " + fresh);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    listener_ = std::move(listener);
    mine_ = IdentityOf(path_);
  }
  if (other_lives) CopyFrom(previous);
  unlink(previous.c_str());
  return Ok();
}

void StoreServer::CopyFrom(const std::string& other_socket) {
  const Result<std::vector<std::string>> keys = fd_store::List(other_socket, kAskLimitMs);
  if (!keys) {
    KRUX_LOG_WARN("descriptors of the older instance are lost: {}", keys.error().ToString());
    return;
  }
  for (const std::string& key : *keys) {
    Result<UniqueFd> fd = fd_store::Get(other_socket, key, kAskLimitMs);
    if (!fd) continue;
    Message put;
    put.bytes = PutRequest(key);
    put.fds.push_back(std::move(*fd));
    const std::lock_guard<std::mutex> lock(mutex_);
    store_.Handle(std::move(put));
  }
  KRUX_LOG_INFO("took {} descriptors over from the older instance", keys->size());
}

bool StoreServer::OwnsSocket() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (IdentityOf(path_) == mine_) return true;
  }
  if (ConnectUnix(path_)) return false;
  if (const Status taken = TakeSocket(); !taken) {
    KRUX_LOG_WARN("descriptor store: {}", taken.error().ToString());
    return true;  // nobody else serves the node
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
  return true;
}

void StoreServer::Answer(int listener) {
  const UniqueFd client(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!client.valid()) return;
  const Result<ucred> peer = PeerOf(client.get());
  if (!peer || peer->uid != geteuid()) {
    const Error denied{ErrorCode::kPermissionDenied, "descriptor store: only root may ask"};
    Send(client.get(), {api::ErrorToJson(denied)});
    return;
  }
  Result<Message> message = ReceiveMessage(client.get(), kAskLimitMs);
  if (!message || message->bytes.empty()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Send(client.get(), store_.Handle(std::move(*message)));
}

void StoreServer::Serve(const std::stop_token& stop) {
  const std::stop_callback wake_up(stop, [this] {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
  });
  while (!stop.stop_requested()) {
    int listener = -1;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      listener = listener_.get();
    }
    pollfd fds[] = {{listener, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    poll(fds, 2, -1);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof count);
    if (fds[0].revents != 0) Answer(listener);
  }
}

StoreServer::~StoreServer() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  if (IdentityOf(path_) == mine_) unlink(path_.c_str());
}

}  // namespace krux::device_plugin
