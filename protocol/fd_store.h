// The descriptor store: the device plugin keeps the containers' account memfds, so that a restarted
// agent gets the same pages back. It listens on <run folder>/plugin.sock (SOCK_SEQPACKET, root
// only); one JSON object asks, one answers, then the connection is closed:
//
//   {"v":1,"op":"put","key":K} + 1 descriptor   -> {"v":1,"ok":true}     replaces an older one
//   {"v":1,"op":"get","key":K}                  -> {"v":1,"ok":true} + 1 descriptor; it stays
//   stored
//   {"v":1,"op":"drop","key":K}                 -> {"v":1,"ok":true}     also when there is none
//   {"v":1,"op":"list"}                         -> {"v":1,"ok":true,"keys":[K,…]}
//
// A failure is {"v":1,"ok":false,"code":…,"error":…} as in agent_api.h. A key is a container id:
// 1 to kMaxKeyBytes of [A-Za-z0-9_.-].
#ifndef KRUX_PROTOCOL_FD_STORE_H_
#define KRUX_PROTOCOL_FD_STORE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/fd.h"
#include "common/result.h"
#include "common/unix_socket.h"

namespace krux::fd_store {

constexpr size_t kMaxKeyBytes = 128;
constexpr size_t kMaxStored = 400;  // so that a list fits one message; a node has far fewer pods

// The agent's side. Each call is one connection and waits at most timeout_ms. Thread-safe.
Status Put(const std::string& socket_path, const std::string& key, int fd, int timeout_ms);
Result<UniqueFd> Get(const std::string& socket_path, const std::string& key, int timeout_ms);
Status Drop(const std::string& socket_path, const std::string& key, int timeout_ms);
Result<std::vector<std::string>> List(const std::string& socket_path, int timeout_ms);

// The plugin's side: the map, without sockets. For each message received call Handle and send what
// it gives, with the descriptor when it is >= 0 (it stays the store's). Not thread-safe.
class Store {
 public:
  struct Answer {
    std::string json;
    int fd = -1;
  };
  Answer Handle(Message message);
  size_t size() const { return fds_.size(); }

 private:
  Status Put(const std::string& key, std::vector<UniqueFd> fds);

  std::map<std::string, UniqueFd> fds_;
};

}  // namespace krux::fd_store

#endif  // KRUX_PROTOCOL_FD_STORE_H_
