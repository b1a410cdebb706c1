// A kubelet for tests, as far as device plugins meet it: it empties the plugin folder when it
// starts, serves Registration on kubelet.sock, dials a plugin back before it answers Register,
// follows ListAndWatch, and refuses a socket that is connected already. Waiting functions return
// false after 10 s. Thread-safe.
#ifndef KRUX_DEVICE_PLUGIN_KUBELET_DOUBLE_H_
#define KRUX_DEVICE_PLUGIN_KUBELET_DOUBLE_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "proto/device_plugin.grpc.pb.h"

namespace krux::device_plugin {

class KubeletDouble final : public v1beta1::Registration::Service {
 public:
  explicit KubeletDouble(std::string folder) : folder_(std::move(folder)) {}
  ~KubeletDouble() override { Stop(); }

  void Start();
  void Stop();        // as when the process ends: streams break, kubelet.sock stays
  void EndStreams();  // the streams alone

  // What the kubelet knows of the plugin that registered last.
  struct View {
    int registrations = 0;
    int live_streams = 0;
    std::string endpoint;
    std::string resource;
    std::string version;
    v1beta1::DevicePluginOptions options;
    std::vector<std::string> ids;
    int messages = 0;
    int healthy = 0;
  };
  View view();
  bool WaitFor(const std::function<bool(const View&)>& condition);

  // A channel to the plugin that registered last.
  std::unique_ptr<v1beta1::DevicePlugin::Stub> Plugin();

  grpc::Status Register(grpc::ServerContext* context, const v1beta1::RegisterRequest* request,
                        v1beta1::Empty* answer) override;

 private:
  void Follow(const std::string& endpoint);

  const std::string folder_;
  std::unique_ptr<grpc::Server> server_;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  View view_;
  std::set<std::string> connected_;
  std::vector<std::shared_ptr<grpc::ClientContext>> streams_;
  std::vector<std::jthread> followers_;
};

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_KUBELET_DOUBLE_H_
