// For tests of this module: an agent on a socket of its own, which gives one prepared answer to
// every create and remembers what it was asked.
//
// Thread rule: one thread serves; requests() and set_answer() may be called from the test's thread.
#ifndef KRUX_RUNTIME_TESTING_FAKE_AGENT_H_
#define KRUX_RUNTIME_TESTING_FAKE_AGENT_H_

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "common/unix_socket.h"
#include "protocol/agent_api.h"

namespace krux::runtime::testing {

class FakeAgent {
 public:
  FakeAgent(const std::string& socket_path, std::string create_answer)
      : answer_(std::move(create_answer)),
        listener_(ListenUnix(socket_path, 0600).value()),
        stop_(eventfd(0, EFD_CLOEXEC)),
        thread_([this] { Serve(); }) {}
  ~FakeAgent() {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  std::vector<api::Request> requests() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return requests_;
  }

 private:
  void Serve() {
    pollfd waiters[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    while (poll(waiters, 2, -1) > 0 && waiters[1].revents == 0) {
      const UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (peer.valid()) ServeOne(peer.get());
    }
  }
  void ServeOne(int peer) {
    const auto message = ReceiveMessage(peer, 5000);
    if (!message) return;
    const auto request = api::ParseRequest(message->bytes);
    if (!request) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      requests_.push_back(*request);
    }
    const bool create = std::holds_alternative<api::CreateRequest>(*request);
    if (!SendMessage(peer, create ? answer_ : api::EmptyAnswerJson())) return;
  }

  const std::string answer_;
  const UniqueFd listener_;
  const UniqueFd stop_;
  std::mutex mutex_;
  std::vector<api::Request> requests_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace krux::runtime::testing

#endif  // KRUX_RUNTIME_TESTING_FAKE_AGENT_H_
