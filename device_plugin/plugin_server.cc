#include "device_plugin/plugin_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>

#include "common/unix_socket.h"
#include "protocol/names.h"

namespace krux::device_plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr char kSocketPrefix[] = "krux-";
constexpr char kSocketSuffix[] = ".sock";
constexpr milliseconds kSelfCallLimit{2000};
constexpr milliseconds kStopLimit{200};
// The kubelet dials back for up to 10 s before it answers.
constexpr milliseconds kRegisterLimit{12'000};

// The pid alone is not unique: in a container it is often the same after each restart.
std::string UniqueName() {
  static std::atomic<unsigned> counter{0};
  std::random_device random;
  char text[64];
  std::snprintf(text, sizeof text, "%s%08x-%u%s", kSocketPrefix, random(), counter++,
                kSocketSuffix);
  return text;
}

// A channel of its own: shared ones would wait out the backoff of an earlier try.
std::shared_ptr<grpc::Channel> Dial(const std::string& path) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  return grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments);
}

Status FromGrpc(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return Ok();
  const bool away = status.error_code() == grpc::StatusCode::UNAVAILABLE;
  return Error{away ? ErrorCode::kUnavailable : ErrorCode::kFailedPrecondition,
               what + ": " + status.error_message()};
}

bool SomebodyListens(const std::string& path) {
  const Result<sockaddr_un> address = UnixAddress(path);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!address || !fd.valid()) return true;
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0 ||
         errno != ECONNREFUSED;
}

}  // namespace

PluginServer::PluginServer(std::string folder, SlotBoard& board, PluginService::Options options)
    : folder_(std::move(folder)), name_(UniqueName()), service_(board, std::move(options)) {}

Result<std::unique_ptr<PluginServer>> PluginServer::Start(const std::string& folder,
                                                          SlotBoard& board,
                                                          PluginService::Options options) {
  std::unique_ptr<PluginServer> server(new PluginServer(folder, board, std::move(options)));
  KRUX_RETURN_IF_ERROR(server->Listen());
  KRUX_RETURN_IF_ERROR(server->CallMyself());
  return server;
}

Status PluginServer::Listen() {
  KRUX_RETURN_IF_ERROR(UnixAddress(path()));
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path(), grpc::InsecureServerCredentials());
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return Error{ErrorCode::kUnavailable, "can't listen on " + path()};
  }
  if (chmod(path().c_str(), 0600) != 0) return ErrnoError(errno, "setting the mode of " + path());
  return Ok();
}

Status PluginServer::CallMyself() const {
  const auto stub = v1beta1::DevicePlugin::NewStub(Dial(path()));
  grpc::ClientContext context;
  context.set_deadline(system_clock::now() + kSelfCallLimit);
  v1beta1::DevicePluginOptions options;
  return FromGrpc(stub->GetDevicePluginOptions(&context, v1beta1::Empty(), &options),
                  "calling my own socket " + path());
}

PluginServer::~PluginServer() {
  if (server_ != nullptr) {
    server_->Shutdown(system_clock::now() + kStopLimit);
    server_->Wait();
  }
  unlink(path().c_str());
}

bool PluginServer::SocketExists() const {
  struct stat info{};
  return lstat(path().c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

Status RegisterWithKubelet(const std::string& kubelet_socket, const std::string& endpoint) {
  const auto stub = v1beta1::Registration::NewStub(Dial(kubelet_socket));
  grpc::ClientContext context;
  context.set_deadline(system_clock::now() + kRegisterLimit);
  v1beta1::RegisterRequest request;
  request.set_version("v1beta1");
  request.set_endpoint(endpoint);
  request.set_resource_name(names::kResourceGpu);
  *request.mutable_options() = PluginService::KubeletOptions();
  v1beta1::Empty answer;
  return FromGrpc(stub->Register(&context, request, &answer), "registering with the kubelet");
}

void RemoveStaleSockets(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kSocketPrefix) || !name.ends_with(kSocketSuffix)) continue;
    if (!entry.is_socket(error) || SomebodyListens(entry.path())) continue;
    unlink(entry.path().c_str());
  }
}

}  // namespace krux::device_plugin
