// The agent's clients of the kubelet against a kubelet's gRPC services on real sockets.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "agent/device_owners.h"
#include "agent/kubelet_pods.h"
#include "proto/kubelet_pods.grpc.pb.h"
#include "proto/kubernetes_core.pb.h"
#include "proto/pod_resources.grpc.pb.h"

namespace krux::agent {
namespace {

std::string PodBytes(const std::string& uid) {
  kubernetes::Pod pod;
  pod.mutable_metadata()->set_uid(uid);
  pod.mutable_metadata()->set_name("pod-" + uid);
  return pod.SerializeAsString();
}

class PodsService : public v1alpha1::Pods::Service {
 public:
  grpc::Status WatchPods(grpc::ServerContext* context, const v1alpha1::WatchPodsRequest*,
                         grpc::ServerWriter<v1alpha1::WatchPodsEvent>* writer) override {
    if (refuse) return {grpc::StatusCode::FAILED_PRECONDITION, "the API server is not synced"};
    for (const char* uid : {"u1", "u2"}) Write(writer, v1alpha1::ADDED, PodBytes(uid));
    Write(writer, v1alpha1::INITIAL_SYNC_COMPLETE, "");
    std::unique_lock<std::mutex> lock(mutex_);
    while (!context->IsCancelled()) {
      changed_.wait_for(lock, std::chrono::milliseconds(10));
      if (!gone_.empty()) Write(writer, v1alpha1::DELETED, PodBytes(gone_));
      gone_.clear();
    }
    return grpc::Status::OK;
  }
  void Delete(const std::string& uid) {
    const std::lock_guard<std::mutex> lock(mutex_);
    gone_ = uid;
    changed_.notify_all();
  }
  std::atomic<bool> refuse = false;

 private:
  static void Write(grpc::ServerWriter<v1alpha1::WatchPodsEvent>* writer, v1alpha1::EventType type,
                    const std::string& pod) {
    v1alpha1::WatchPodsEvent event;
    event.set_type(type);
    event.set_pod(pod);
    writer->Write(event);
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string gone_;  // guarded by mutex_
};

class ResourcesService : public v1::PodResourcesLister::Service {
 public:
  grpc::Status List(grpc::ServerContext*, const v1::ListPodResourcesRequest*,
                    v1::ListPodResourcesResponse* response) override {
    auto* pod = response->add_pod_resources();
    pod->set_name("p");
    pod->set_namespace_("ns");
    auto* container = pod->add_containers();
    container->set_name("main");
    auto* devices = container->add_devices();
    devices->set_resource_name("krux.io/gpu");
    devices->add_device_ids("krux-7");
    return grpc::Status::OK;
  }
};

class Events {
 public:
  void Add(PodEvent event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  // The next event of this kind; others before it are dropped.
  PodEvent Next(PodEvent::Kind kind) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      if (!changed_.wait_for(lock, std::chrono::seconds(30), [this] { return !events_.empty(); })) {
        ADD_FAILURE() << "no event of kind " << static_cast<int>(kind);
        return {};
      }
      PodEvent event = std::move(events_.front());
      events_.pop_front();
      if (event.kind == kind) return event;
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PodEvent> events_;  // guarded by mutex_
};

class KubeletDoubleTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    for (const char* name : {"/pods-api", "/pod-resources", "/device-plugins"}) {
      std::filesystem::create_directories(folder_ + name);
    }
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    std::filesystem::remove_all(folder_);
  }
  void Serve() {
    grpc::ServerBuilder pods;
    pods.AddListeningPort("unix:" + folder_ + "/pods-api/pods-api.sock",
                          grpc::InsecureServerCredentials());
    pods.AddListeningPort("unix:" + folder_ + "/pod-resources/kubelet.sock",
                          grpc::InsecureServerCredentials());
    pods.RegisterService(&pods_);
    pods.RegisterService(&resources_);
    server_ = pods.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  std::string folder_ = "/tmp/krux-kubelet-XXXXXX";
  PodsService pods_;
  ResourcesService resources_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(KubeletDoubleTest, TellsOfPodsThatTheyAreAllAndWhenOneIsGone) {
  Serve();
  Events events;
  const auto source = MakeKubeletPods(folder_);
  source->Start([&](PodEvent event) { events.Add(std::move(event)); });
  EXPECT_EQ(events.Next(PodEvent::Kind::kChanged).pod.uid, "u1");
  EXPECT_EQ(events.Next(PodEvent::Kind::kChanged).pod.uid, "u2");
  EXPECT_THAT(events.Next(PodEvent::Kind::kSynced).uids, testing::ElementsAre("u1", "u2"));
  pods_.Delete("u1");
  EXPECT_EQ(events.Next(PodEvent::Kind::kGone).uid, "u1");
}

TEST_F(KubeletDoubleTest, RefusalIsTroubleAndTheWatchIsTriedAgain) {
  pods_.refuse = true;
  Serve();
  Events events;
  const auto source = MakeKubeletPods(folder_);
  source->Start([&](PodEvent event) { events.Add(std::move(event)); });
  EXPECT_THAT(events.Next(PodEvent::Kind::kTrouble).reason, testing::HasSubstr("not synced"));
  pods_.refuse = false;
  EXPECT_EQ(events.Next(PodEvent::Kind::kSynced).uids.size(), 2u);
}

TEST_F(KubeletDoubleTest, SourceWaitsForAKubeletThatIsNotThereYet) {
  Events events;
  const auto source = MakeKubeletPods(folder_);
  source->Start([&](PodEvent event) { events.Add(std::move(event)); });
  events.Next(PodEvent::Kind::kTrouble);
  Serve();
  EXPECT_EQ(events.Next(PodEvent::Kind::kSynced).uids.size(), 2u);
}

TEST_F(KubeletDoubleTest, SlotsAreFoundInTheListThenInTheCheckpoint) {
  Serve();
  std::ofstream(folder_ + "/device-plugins/kubelet_internal_checkpoint")
      << R"({"Data":{"PodDeviceEntries":[
           {"PodUID":"u1","ContainerName":"main","ResourceName":"krux.io/gpu",
            "DeviceIDs":{"-1":["krux-7"]}},
           {"PodUID":"u1","ContainerName":"setup","ResourceName":"krux.io/gpu",
            "DeviceIDs":{"-1":["krux-8"]}}]},"Checksum":1})";
  const auto owners = MakeKubeletDeviceOwners(folder_);
  EXPECT_EQ(owners->Find({"krux-7"}).value(), (DeviceOwner{"u1", "ns", "p", "main"}));
  EXPECT_EQ(owners->Find({"krux-8"}).value(), (DeviceOwner{"u1", "", "", "setup"}));
  EXPECT_EQ(owners->Find({"krux-9"}).error().code, ErrorCode::kNotFound);
  server_->Shutdown(std::chrono::system_clock::now());
  EXPECT_EQ(owners->Find({"krux-8"}).value().container, "setup");
}

}  // namespace
}  // namespace krux::agent
