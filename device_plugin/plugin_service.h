// The five calls of the kubelet, in one place. Nothing is remembered between them: the kubelet
// names neither pod nor container, so nothing could be remembered rightly.
//
//   GetDevicePluginOptions   PreStartContainer and GetPreferredAllocation are wanted
//   ListAndWatch             the slots, again whenever they change (slot_stream.h)
//   GetPreferredAllocation   the lowest free numbers
//   Allocate                 no device, no mount: NVIDIA_VISIBLE_DEVICES=void and a marker. It asks
//                            nobody, since its failure would be final for the pod
//   PreStartContainer        the gate: asks the agent, waits inside the call (gate_client.h)
//
// Thread rule: gRPC calls it from many threads. One object serves one gRPC server.
#ifndef KRUX_DEVICE_PLUGIN_PLUGIN_SERVICE_H_
#define KRUX_DEVICE_PLUGIN_PLUGIN_SERVICE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "device_plugin/gate_client.h"
#include "device_plugin/slot_board.h"
#include "proto/device_plugin.grpc.pb.h"

namespace krux::device_plugin {

inline constexpr char kSlotVariable[] = "KRUX_SLOT";  // a marker for people; nothing rests on it

class PluginService final : public v1beta1::DevicePlugin::WithCallbackMethod_ListAndWatch<
                                v1beta1::DevicePlugin::Service> {
 public:
  struct Options {
    std::string agent_socket;
    GateLimits gate = {};
    std::function<void()> on_streams_changed = [] {};  // a ListAndWatch began or ended; any thread
  };

  PluginService(SlotBoard& board, Options options) : board_(board), options_(std::move(options)) {
    streams_->on_changed = options_.on_streams_changed;
  }

  int live_streams() const { return streams_->live; }
  bool had_stream() const { return streams_->had; }

  static v1beta1::DevicePluginOptions KubeletOptions();

  grpc::Status GetDevicePluginOptions(grpc::ServerContext* context, const v1beta1::Empty* request,
                                      v1beta1::DevicePluginOptions* answer) override;
  grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* ListAndWatch(
      grpc::CallbackServerContext* context, const v1beta1::Empty* request) override;
  grpc::Status GetPreferredAllocation(grpc::ServerContext* context,
                                      const v1beta1::PreferredAllocationRequest* request,
                                      v1beta1::PreferredAllocationResponse* answer) override;
  grpc::Status Allocate(grpc::ServerContext* context, const v1beta1::AllocateRequest* request,
                        v1beta1::AllocateResponse* answer) override;
  grpc::Status PreStartContainer(grpc::ServerContext* context,
                                 const v1beta1::PreStartContainerRequest* request,
                                 v1beta1::PreStartContainerResponse* answer) override;

 private:
  // Shared with the streams, whose last call may come while the service goes.
  struct Streams {
    std::atomic<int> live{0};
    std::atomic<bool> had{false};
    std::function<void()> on_changed;
  };

  SlotBoard& board_;
  const Options options_;
  const std::shared_ptr<Streams> streams_ = std::make_shared<Streams>();
};

// "krux: <CODE>: <message>" under the gRPC code that corresponds; shown in `kubectl describe pod`.
grpc::Status ToGrpc(const Error& error);

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_PLUGIN_SERVICE_H_
