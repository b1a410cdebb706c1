// The descriptor store of the node (protocol/fd_store.h) on <run folder>/plugin.sock: keeps the
// containers' account pages for a restarted agent. Only root may ask.
//
// One instance of the plugin owns the socket. A newer one takes the socket over together with all
// descriptors; the older one sees that it no longer owns it and stops registering.
//
// Thread rule: Start and the destructor by one owner; OwnsSocket from any thread.
#ifndef KRUX_DEVICE_PLUGIN_STORE_SERVER_H_
#define KRUX_DEVICE_PLUGIN_STORE_SERVER_H_

#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/fd.h"
#include "common/result.h"
#include "device_plugin/folder_watch.h"
#include "protocol/fd_store.h"

namespace krux::device_plugin {

class StoreServer {
 public:
  static Result<std::unique_ptr<StoreServer>> Start(const std::string& socket_path);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // True unless another living instance has taken the socket. When that one has died, the socket is
  // taken back here.
  bool OwnsSocket();

 private:
  explicit StoreServer(std::string socket_path) : path_(std::move(socket_path)) {}
  Status TakeSocket();
  void CopyFrom(const std::string& other_socket);
  void Serve(const std::stop_token& stop);
  void Answer(int listener);

  const std::string path_;
  std::mutex mutex_;  // guards all below but thread_
  fd_store::Store store_;
  UniqueFd listener_;
  FileIdentity mine_;
  UniqueFd wake_;  // tells the thread that the listener is another one
  std::jthread thread_;
};

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_STORE_SERVER_H_
