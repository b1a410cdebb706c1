#include "agent/kubelet_pods.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "common/log.h"
#include "proto/kubelet_pods.grpc.pb.h"
#include "proto/kubernetes_core.pb.h"
#include "protocol/names.h"

namespace krux::agent {
namespace {

using std::chrono::milliseconds;

constexpr auto kListPeriod = std::chrono::seconds(30);
constexpr auto kListTimeout = std::chrono::seconds(10);
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{5000};
constexpr char kPrefix[] = "krux.io/";

bool IsOurs(const std::string& name) { return name.rfind(kPrefix, 0) == 0; }

PodContainer ToContainer(const kubernetes::Container& from, ContainerKind kind) {
  PodContainer container;
  container.name = from.name();
  container.kind = kind;
  const auto read = [&](const auto& quantities) {
    for (const auto& [name, quantity] : quantities) {
      if (!IsOurs(name)) continue;
      container.asks_krux = true;
      // The API server keeps whole numbers of extended resources in their canonical form.
      if (name == names::kResourceGpu) {
        container.gpus = std::strtoull(quantity.string().c_str(), nullptr, 10);
      }
    }
  };
  read(from.resources().limits());
  read(from.resources().requests());
  return container;
}

class KubeletPods : public PodSource {
 public:
  explicit KubeletPods(const std::string& folder)
      : stub_(v1alpha1::Pods::NewStub(MakeChannel(folder + "/pods-api/pods-api.sock"))) {}

  ~KubeletPods() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      if (watch_ != nullptr) watch_->TryCancel();
      if (list_ != nullptr) list_->TryCancel();
    }
    changed_.notify_all();
    if (watcher_.joinable()) watcher_.join();
    if (lister_.joinable()) lister_.join();
  }

  void Start(Sink sink) override {
    sink_ = std::move(sink);
    watcher_ = std::thread([this] { WatchForever(); });
    lister_ = std::thread([this] { ListForever(); });
  }

 private:
  static std::shared_ptr<grpc::Channel> MakeChannel(const std::string& socket) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(64 * 1024 * 1024);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  // False when the source is to end.
  bool Pause(milliseconds pause) {
    std::unique_lock<std::mutex> lock(mutex_);
    return !changed_.wait_for(lock, pause, [this] { return stop_; });
  }

  void WatchForever() {
    milliseconds pause = kFirstPause;
    do {
      if (WatchOnce()) pause = kFirstPause;
      pause = std::min(pause * 2, kLongestPause);
    } while (Pause(pause));
  }

  // True when the watch had worked for a while.
  bool WatchOnce() {
    grpc::ClientContext context;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) return false;
      watch_ = &context;
    }
    std::set<std::string> seen;
    bool synced = false;
    const auto reader = stub_->WatchPods(&context, v1alpha1::WatchPodsRequest());
    v1alpha1::WatchPodsEvent event;
    while (reader->Read(&event)) {
      if (event.type() == v1alpha1::INITIAL_SYNC_COMPLETE) {
        synced = true;
        Synced(seen);
        continue;
      }
      Take(event, synced ? nullptr : &seen);
    }
    const grpc::Status status = reader->Finish();
    const std::lock_guard<std::mutex> lock(mutex_);
    watch_ = nullptr;
    if (!stop_) Trouble(status);
    return synced;
  }

  void Take(const v1alpha1::WatchPodsEvent& event, std::set<std::string>* seen) {
    auto pod = ParsePod(event.pod());
    if (!pod) {
      KRUX_LOG_WARN("pod of the kubelet not understood reason=\"{}\"", pod.error().message);
      return;
    }
    if (seen != nullptr) seen->insert(pod->uid);
    const std::lock_guard<std::mutex> lock(sink_mutex_);
    ++version_;
    touched_[pod->uid] = version_;
    if (event.type() == v1alpha1::DELETED) {
      PodEvent gone{PodEvent::Kind::kGone, {}, pod->uid, {}, {}};
      sink_(std::move(gone));
    } else {
      sink_(PodEvent{PodEvent::Kind::kChanged, std::move(*pod), {}, {}, {}});
    }
  }

  void Synced(const std::set<std::string>& uids) {
    const std::lock_guard<std::mutex> lock(sink_mutex_);
    sink_(PodEvent{PodEvent::Kind::kSynced, {}, {}, uids, {}});
  }

  void Trouble(const grpc::Status& status) {
    const std::string reason = status.ok() ? "the watch ended" : status.error_message();
    const std::lock_guard<std::mutex> lock(sink_mutex_);
    sink_(PodEvent{PodEvent::Kind::kTrouble, {}, {}, {}, "kubelet Pods API: " + reason});
  }

  void ListForever() {
    while (Pause(kListPeriod)) ListOnce();
  }

  void ListOnce() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kListTimeout);
    uint64_t before = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) return;
      list_ = &context;
    }
    {
      const std::lock_guard<std::mutex> lock(sink_mutex_);
      before = version_;
    }
    v1alpha1::ListPodsResponse response;
    const grpc::Status status = stub_->ListPods(&context, v1alpha1::ListPodsRequest(), &response);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      list_ = nullptr;
    }
    if (status.ok()) Reconcile(response, before);
  }

  // The list is a picture of some moment after `before`: what the watch told since then is newer.
  void Reconcile(const v1alpha1::ListPodsResponse& response, uint64_t before) {
    const std::lock_guard<std::mutex> lock(sink_mutex_);
    std::set<std::string> uids;
    for (const std::string& bytes : response.pods()) {
      auto pod = ParsePod(bytes);
      if (!pod) return;  // an incomplete picture removes nothing
      uids.insert(pod->uid);
      const auto touched = touched_.find(pod->uid);
      if (touched != touched_.end() && touched->second > before) continue;
      sink_(PodEvent{PodEvent::Kind::kChanged, std::move(*pod), {}, {}, {}});
    }
    for (auto it = touched_.begin(); it != touched_.end();) {
      const bool is_newer = it->second > before;
      if (is_newer) uids.insert(it->first);
      it = is_newer || uids.contains(it->first) ? std::next(it) : touched_.erase(it);
    }
    sink_(PodEvent{PodEvent::Kind::kSynced, {}, {}, std::move(uids), {}});
  }

  std::unique_ptr<v1alpha1::Pods::Stub> stub_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;                     // guarded by mutex_
  grpc::ClientContext* watch_ = nullptr;  // guarded by mutex_
  grpc::ClientContext* list_ = nullptr;   // guarded by mutex_
  std::mutex sink_mutex_;                 // one call of the sink at a time
  Sink sink_;
  uint64_t version_ = 0;                     // guarded by sink_mutex_: counts the watch's events
  std::map<std::string, uint64_t> touched_;  // guarded by sink_mutex_: when the watch named a pod
  std::thread watcher_;
  std::thread lister_;
};

}  // namespace

Result<Pod> ParsePod(const std::string& bytes) {
  kubernetes::Pod from;
  if (!from.ParseFromString(bytes) || from.metadata().uid().empty()) {
    return Error{ErrorCode::kDataLoss, "the bytes are no pod with a uid"};
  }
  Pod pod;
  pod.uid = from.metadata().uid();
  pod.name_space = from.metadata().namespace_();
  pod.name = from.metadata().name();
  pod.runtime_class = from.spec().runtime_class_name();
  pod.deleting = from.metadata().has_deletion_timestamp();
  pod.finished = from.status().phase() == "Succeeded" || from.status().phase() == "Failed";
  for (const auto& [name, value] : from.metadata().annotations()) {
    if (IsOurs(name)) pod.annotations[name] = value;
  }
  for (const auto& container : from.spec().init_containers()) {
    const bool is_sidecar = container.restart_policy() == "Always";
    pod.containers.push_back(
        ToContainer(container, is_sidecar ? ContainerKind::kSidecar : ContainerKind::kInit));
  }
  for (const auto& container : from.spec().containers()) {
    pod.containers.push_back(ToContainer(container, ContainerKind::kApp));
  }
  return pod;
}

std::unique_ptr<PodSource> MakeKubeletPods(const std::string& kubelet_folder) {
  return std::make_unique<KubeletPods>(kubelet_folder);
}

}  // namespace krux::agent
