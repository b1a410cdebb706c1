#include "device_plugin/registrar.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "common/log.h"

namespace krux::device_plugin {
namespace {

void Signal(int event_fd) {
  const uint64_t one = 1;
  // A full counter is readable as well, which is all that is wanted.
  [[maybe_unused]] const ssize_t written = write(event_fd, &one, sizeof one);
}

void Clear(int event_fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(event_fd, &count, sizeof count);
}

}  // namespace

Registrar::Registrar(SlotBoard& board, Options options)
    : board_(board),
      options_(std::move(options)),
      watch_(options_.folder),
      wake_(std::make_shared<UniqueFd>(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      retry_delay_(options_.first_retry) {
  options_.service.on_streams_changed = [wake = wake_] { Signal(wake->get()); };
}

void Registrar::Run(int stop_fd) {
  RemoveStaleSockets(options_.folder);
  bool running = true;
  while (running) {
    const Nanos now = MonotonicNow();
    if (const Status watched = watch_.Renew(); !watched) LogOnce(watched.error().ToString());
    if (MustRegister(now)) Register(now);
    running = Wait(stop_fd, MonotonicNow());
  }
  server_.reset();
}

// Why a plugin that registered once has to do it again; nullptr when it need not.
const char* Registrar::WhyNotRegistered(const FileIdentity& kubelet, Nanos now) const {
  if (!(kubelet == registered_kubelet_)) return "the kubelet was restarted";
  if (!server_->SocketExists()) return "the plugin's socket was removed";
  if (server_->LostStream()) return "the kubelet ended the stream";
  if (!server_->HasStream() && now - registered_at_ >= options_.stream_limit) {
    return "the kubelet opened no stream";
  }
  return nullptr;
}

bool Registrar::MustRegister(Nanos now) {
  const FileIdentity kubelet = IdentityOf(KubeletSocket());
  if (!(kubelet == seen_kubelet_)) {
    seen_kubelet_ = kubelet;
    retry_at_ = now;
    retry_delay_ = options_.first_retry;
  }
  if (registered_) {
    const char* why = WhyNotRegistered(kubelet, now);
    if (why == nullptr) return false;
    LogOnce(std::string("registering again: ") + why);
    registered_ = false;
    retry_at_ = now;
    RetireServer();
  }
  if (!kubelet.exists()) {
    LogOnce("waiting for the kubelet: " + KubeletSocket() + " does not exist");
    return false;
  }
  if (!options_.may_register()) {
    LogOnce("another instance of the plugin serves this node; waiting");
    return false;
  }
  return now >= retry_at_;
}

void Registrar::Register(Nanos now) {
  const FileIdentity kubelet = seen_kubelet_;
  if (const Status served = EnsureServer(); !served) return Failed(served.error(), now);
  if (const Status done = RegisterWithKubelet(KubeletSocket(), server_->name()); !done) {
    // Anything but an absent kubelet may leave half a registration under this name.
    if (done.error().code != ErrorCode::kUnavailable) RetireServer();
    return Failed(done.error(), now);
  }
  registered_ = true;
  registered_kubelet_ = kubelet;
  registered_at_ = MonotonicNow();
  retry_delay_ = options_.first_retry;
  logged_.clear();
  KRUX_LOG_INFO("registered with the kubelet socket={} slots={}", server_->name(),
                board_.Get().count);
}

// A kubelet that starts empties the folder, so the socket of a server that waits may be gone.
Status Registrar::EnsureServer() {
  if (server_ != nullptr && server_->SocketExists()) return Ok();
  RetireServer();
  KRUX_ASSIGN_OR_RETURN(server_, PluginServer::Start(options_.folder, board_, options_.service));
  return Ok();
}

void Registrar::RetireServer() {
  if (server_ == nullptr) return;
  retiring_ = std::jthread([server = std::move(server_)]() mutable { server.reset(); });
}

void Registrar::Failed(const Error& error, Nanos now) {
  LogOnce(error.ToString() + "; trying again");
  retry_at_ = now + retry_delay_;
  retry_delay_ = std::min(retry_delay_ * 2, options_.last_retry);
}

bool Registrar::Wait(int stop_fd, Nanos now) {
  Nanos until = now + options_.slow_poll;
  if (!registered_ && seen_kubelet_.exists() && retry_at_ > now) until = std::min(until, retry_at_);
  if (registered_ && !server_->HasStream()) {
    until = std::min(until, registered_at_ + options_.stream_limit);
  }
  pollfd fds[] = {{stop_fd, POLLIN, 0}, {watch_.fd(), POLLIN, 0}, {wake_->get(), POLLIN, 0}};
  const Nanos left_ms = std::max<Nanos>(until - now, 0) / kMillisecond + 1;
  poll(fds, 3, static_cast<int>(left_ms));
  if (fds[0].revents != 0) return false;
  watch_.Drain();
  Clear(wake_->get());
  return true;
}

void Registrar::LogOnce(const std::string& text) {
  if (text == logged_) return;
  logged_ = text;
  KRUX_LOG_INFO("{}", text);
}

}  // namespace krux::device_plugin
