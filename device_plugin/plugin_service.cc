#include "device_plugin/plugin_service.h"

#include <vector>

#include "common/log.h"
#include "device_plugin/slot_stream.h"
#include "device_plugin/slots.h"

namespace krux::device_plugin {
namespace {

template <typename Repeated>
std::vector<std::string> ToVector(const Repeated& texts) {
  return std::vector<std::string>(texts.begin(), texts.end());
}

std::string Join(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + SlotId(number);
  return text;
}

grpc::StatusCode GrpcCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case ErrorCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case ErrorCode::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case ErrorCode::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case ErrorCode::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case ErrorCode::kFailedPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case ErrorCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case ErrorCode::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case ErrorCode::kDataLoss:
      return grpc::StatusCode::DATA_LOSS;
    case ErrorCode::kUnimplemented:
      return grpc::StatusCode::UNIMPLEMENTED;
    case ErrorCode::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::UNKNOWN;
}

}  // namespace

grpc::Status ToGrpc(const Error& error) {
  return {GrpcCode(error.code), "krux: " + error.ToString()};
}

v1beta1::DevicePluginOptions PluginService::KubeletOptions() {
  v1beta1::DevicePluginOptions options;
  options.set_pre_start_required(true);
  options.set_get_preferred_allocation_available(true);
  return options;
}

grpc::Status PluginService::GetDevicePluginOptions(grpc::ServerContext* /*context*/,
                                                   const v1beta1::Empty* /*request*/,
                                                   v1beta1::DevicePluginOptions* answer) {
  *answer = KubeletOptions();
  return grpc::Status::OK;
}

grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* PluginService::ListAndWatch(
    grpc::CallbackServerContext* /*context*/, const v1beta1::Empty* /*request*/) {
  ++streams_->live;
  streams_->had = true;
  streams_->on_changed();
  return SlotStream::Start(board_, [streams = streams_] {
    --streams->live;
    streams->on_changed();
  });
}

grpc::Status PluginService::GetPreferredAllocation(
    grpc::ServerContext* /*context*/, const v1beta1::PreferredAllocationRequest* request,
    v1beta1::PreferredAllocationResponse* answer) {
  for (const auto& container : request->container_requests()) {
    auto* chosen = answer->add_container_responses();
    for (const std::string& id :
         PreferSlots(ToVector(container.available_deviceids()),
                     ToVector(container.must_include_deviceids()), container.allocation_size())) {
      chosen->add_deviceids(id);
    }
  }
  return grpc::Status::OK;
}

grpc::Status PluginService::Allocate(grpc::ServerContext* /*context*/,
                                     const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* answer) {
  for (const auto& container : request->container_requests()) {
    const Result<std::vector<int>> slots = ParseSlotIds(ToVector(container.devices_ids()));
    if (!slots) return ToGrpc(slots.error());
    auto& envs = *answer->add_container_responses()->mutable_envs();
    envs["NVIDIA_VISIBLE_DEVICES"] = "void";
    envs[kSlotVariable] = Join(*slots);
  }
  return grpc::Status::OK;
}

grpc::Status PluginService::PreStartContainer(grpc::ServerContext* context,
                                              const v1beta1::PreStartContainerRequest* request,
                                              v1beta1::PreStartContainerResponse* /*answer*/) {
  const std::vector<std::string> ids = ToVector(request->devices_ids());
  if (const auto slots = ParseSlotIds(ids); !slots) return ToGrpc(slots.error());
  const Status passed =
      AskGate(options_.agent_socket, ids, options_.gate, [&] { return context->IsCancelled(); });
  if (passed) return grpc::Status::OK;
  KRUX_LOG_INFO("gate closed slots={} {}", ids.front(), passed.error().ToString());
  return ToGrpc(passed.error());
}

}  // namespace krux::device_plugin
