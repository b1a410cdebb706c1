// What the agent reads of the kubelet: pods, the device checkpoint, cgroups of processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "agent/device_owners.h"
#include "agent/kubelet_pods.h"
#include "agent/processes.h"
#include "proto/kubernetes_core.pb.h"

namespace krux::agent {
namespace {

TEST(ParsePodTest, ReadsIdentityKindsAndRequests) {
  kubernetes::Pod from;
  from.mutable_metadata()->set_uid("u1");
  from.mutable_metadata()->set_namespace_("ns");
  from.mutable_metadata()->set_name("p");
  (*from.mutable_metadata()->mutable_annotations())["krux.io/grant"] = "{}";
  (*from.mutable_metadata()->mutable_annotations())["other"] = "x";
  from.mutable_spec()->set_runtime_class_name("krux");
  auto* init = from.mutable_spec()->add_init_containers();
  init->set_name("setup");
  auto* sidecar = from.mutable_spec()->add_init_containers();
  sidecar->set_name("proxy");
  sidecar->set_restart_policy("Always");
  auto* app = from.mutable_spec()->add_containers();
  app->set_name("main");
  (*app->mutable_resources()->mutable_limits())["krux.io/gpu"].set_string("2");
  (*app->mutable_resources()->mutable_requests())["cpu"].set_string("100m");
  const auto pod = ParsePod(from.SerializeAsString());
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->FullName(), "ns/p");
  EXPECT_EQ(pod->runtime_class, "krux");
  EXPECT_EQ(pod->annotations.size(), 1u);
  EXPECT_THAT(pod->containers,
              testing::ElementsAre(PodContainer{"setup", ContainerKind::kInit, 0, false},
                                   PodContainer{"proxy", ContainerKind::kSidecar, 0, false},
                                   PodContainer{"main", ContainerKind::kApp, 2, true}));
  EXPECT_FALSE(pod->deleting);
  from.mutable_metadata()->mutable_deletion_timestamp()->set_seconds(1);
  from.mutable_status()->set_phase("Succeeded");
  EXPECT_TRUE(ParsePod(from.SerializeAsString())->deleting);
  EXPECT_TRUE(ParsePod(from.SerializeAsString())->finished);
}

TEST(ParsePodTest, RefusesBytesThatAreNoPod) {
  EXPECT_EQ(ParsePod("\xff\xff\xff").error().code, ErrorCode::kDataLoss);
  EXPECT_FALSE(ParsePod(""));
}

constexpr char kCheckpoint[] = R"({"Data":{"PodDeviceEntries":[
  {"PodUID":"u1","ContainerName":"setup","ResourceName":"krux.io/gpu",
   "DeviceIDs":{"-1":["krux-3"]},"AllocResp":"CgA="},
  {"PodUID":"u1","ContainerName":"main","ResourceName":"krux.io/gpu",
   "DeviceIDs":{"0":["krux-5"],"1":["krux-4"]},"AllocResp":"CgA="},
  {"PodUID":"u2","ContainerName":"main","ResourceName":"other.io/nic",
   "DeviceIDs":{"-1":["krux-9"]},"AllocResp":""}],
  "RegisteredDevices":{"krux.io/gpu":["krux-3"]}},"Checksum":1})";

TEST(CheckpointTest, FindsTheContainerThatHoldsExactlyTheseSlots) {
  const auto owner = FindInCheckpoint(kCheckpoint, {"krux-4", "krux-5"});
  ASSERT_TRUE(owner);
  EXPECT_EQ(*owner, (DeviceOwner{"u1", "", "", "main"}));
  EXPECT_EQ(FindInCheckpoint(kCheckpoint, {"krux-3"})->container, "setup");
  EXPECT_EQ(FindInCheckpoint(kCheckpoint, {"krux-4"}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(FindInCheckpoint(kCheckpoint, {"krux-9"}).error().code, ErrorCode::kNotFound);
}

TEST(CheckpointTest, RefusesOtherForms) {
  for (const char* text :
       {"", "[]", "{}", R"({"Data":[]})", R"({"Data":{"PodDeviceEntries":7}})"}) {
    EXPECT_EQ(FindInCheckpoint(text, {"krux-1"}).error().code, ErrorCode::kDataLoss) << text;
  }
}

TEST(ProcessesTest, CgroupTextNamesItsContainerAndNoOther) {
  const std::string id(64, 'a');
  const std::string v2 = "0::/kubepods/besteffort/pod1/" + id + "\n";
  const std::string v1 = "3:memory:/kubepods/pod1/" + id + "/inner\n1:name=systemd:/x\n";
  const std::string systemd = "0::/kubepods.slice/x.slice/cri-containerd-" + id + ".scope\n";
  for (const std::string& text : {v2, v1, systemd}) {
    EXPECT_TRUE(CgroupTextNames(text, id, "")) << text;
    EXPECT_FALSE(CgroupTextNames(text, std::string(64, 'b'), "")) << text;
    EXPECT_FALSE(CgroupTextNames(text, id.substr(0, 63), "")) << text;
  }
  EXPECT_TRUE(CgroupTextNames(v2, "other", "/kubepods/besteffort/pod1/" + id));
  EXPECT_TRUE(CgroupTextNames(systemd, "other", "x.slice:cri-containerd:" + id));
  EXPECT_FALSE(CgroupTextNames("0::/\n", id, "/kubepods/" + id));
  EXPECT_FALSE(CgroupTextNames("", "", ""));
}

TEST(ProcessesTest, KnowsItself) {
  EXPECT_TRUE(StartTimeOf(getpid()));
  const auto fd = OpenPidfd(getpid());
  ASSERT_TRUE(fd);
  EXPECT_FALSE(HasEnded(fd->get()));
  EXPECT_FALSE(OpenPidfd(0));
  EXPECT_FALSE(CheckInContainer(getpid(), std::string(64, 'a'), ""));
}

}  // namespace
}  // namespace krux::agent
