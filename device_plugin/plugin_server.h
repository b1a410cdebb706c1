// One gRPC server of the plugin on one socket of its own in the kubelet's plugin folder. Each
// registration gets a new one under a new name: a kubelet keys plugins by resource or by socket,
// and refuses or confuses two registrations of the same (kubernetes #127803, #135437).
//
// Thread rule: one owner. The destructor ends all calls within about 200 ms and removes the socket.
#ifndef KRUX_DEVICE_PLUGIN_PLUGIN_SERVER_H_
#define KRUX_DEVICE_PLUGIN_PLUGIN_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "common/result.h"
#include "device_plugin/plugin_service.h"

namespace krux::device_plugin {

class PluginServer {
 public:
  // Binds krux-<unique>.sock in `folder`, serves, and calls itself once to prove that it does.
  static Result<std::unique_ptr<PluginServer>> Start(const std::string& folder, SlotBoard& board,
                                                     PluginService::Options options);
  ~PluginServer();
  PluginServer(const PluginServer&) = delete;
  PluginServer& operator=(const PluginServer&) = delete;

  const std::string& name() const { return name_; }  // the socket's file name
  bool SocketExists() const;
  bool LostStream() const { return service_.had_stream() && service_.live_streams() == 0; }
  bool HasStream() const { return service_.live_streams() > 0; }

 private:
  PluginServer(std::string folder, SlotBoard& board, PluginService::Options options);
  Status Listen();
  Status CallMyself() const;
  std::string path() const { return folder_ + "/" + name_; }

  const std::string folder_;
  const std::string name_;
  PluginService service_;
  std::unique_ptr<grpc::Server> server_;
};

// Asks the kubelet's registry at `kubelet_socket` to use the plugin that serves on `endpoint`.
Status RegisterWithKubelet(const std::string& kubelet_socket, const std::string& endpoint);

// Removes sockets of this plugin on which nobody listens any more.
void RemoveStaleSockets(const std::string& folder);

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_PLUGIN_SERVER_H_
