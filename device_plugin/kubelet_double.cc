#include "device_plugin/kubelet_double.h"

#include <chrono>
#include <filesystem>

namespace krux::device_plugin {
namespace {

std::shared_ptr<grpc::Channel> Dial(const std::string& path) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  return grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

void KubeletDouble::Start() {
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::filesystem::remove(entry.path());
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + folder_ + "/kubelet.sock", grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

void KubeletDouble::EndStreams() {
  std::vector<std::jthread> followers;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& stream : streams_) stream->TryCancel();
    streams_.clear();
    followers = std::move(followers_);
  }
}

void KubeletDouble::Stop() {
  EndStreams();
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

grpc::Status KubeletDouble::Register(grpc::ServerContext* /*context*/,
                                     const v1beta1::RegisterRequest* request,
                                     v1beta1::Empty* /*answer*/) {
  const auto plugin = v1beta1::DevicePlugin::NewStub(Dial(folder_ + "/" + request->endpoint()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1beta1::DevicePluginOptions options;
  const grpc::Status asked = plugin->GetDevicePluginOptions(&context, v1beta1::Empty(), &options);
  if (!asked.ok()) return {grpc::StatusCode::UNKNOWN, "dial back: " + asked.error_message()};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!connected_.insert(request->endpoint()).second) {
    return {grpc::StatusCode::UNKNOWN, "device plugin already connected"};
  }
  ++view_.registrations;
  view_.endpoint = request->endpoint();
  view_.resource = request->resource_name();
  view_.version = request->version();
  view_.options = options;
  followers_.emplace_back([this, endpoint = request->endpoint()] { Follow(endpoint); });
  changed_.notify_all();
  return grpc::Status::OK;
}

void KubeletDouble::Follow(const std::string& endpoint) {
  const auto plugin = v1beta1::DevicePlugin::NewStub(Dial(folder_ + "/" + endpoint));
  const auto context = std::make_shared<grpc::ClientContext>();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.push_back(context);
    ++view_.live_streams;
  }
  const auto reader = plugin->ListAndWatch(context.get(), v1beta1::Empty());
  v1beta1::ListAndWatchResponse response;
  while (reader->Read(&response)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++view_.messages;
    view_.ids.clear();
    view_.healthy = 0;
    for (const v1beta1::Device& device : response.devices()) {
      view_.ids.push_back(device.id());
      if (device.health() == "Healthy") ++view_.healthy;
    }
    changed_.notify_all();
  }
  reader->Finish();
  const std::lock_guard<std::mutex> lock(mutex_);
  --view_.live_streams;
  view_.healthy = 0;
  changed_.notify_all();
}

KubeletDouble::View KubeletDouble::view() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return view_;
}

bool KubeletDouble::WaitFor(const std::function<bool(const View&)>& condition) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return condition(view_); });
}

std::unique_ptr<v1beta1::DevicePlugin::Stub> KubeletDouble::Plugin() {
  return v1beta1::DevicePlugin::NewStub(Dial(folder_ + "/" + view().endpoint));
}

}  // namespace krux::device_plugin
