#include "runtime/edits.h"

#include <gtest/gtest.h>

#include "runtime/testing/fake_elf.h"
#include "runtime/testing/temp_folder.h"

namespace krux::runtime {
namespace {

using testing::FakeElf;
using testing::Slurp;
using testing::TempFolder;

constexpr char kSpec[] = R"({"ociVersion":"1.1.0","futureField":{"x":1},
  "process":{"env":["PATH=/bin","NVIDIA_VISIBLE_DEVICES=all"]},
  "mounts":[{"destination":"/proc","type":"proc","source":"proc"}],
  "linux":{"resources":{"devices":[{"allow":false,"access":"rwm"}]},"cgroupsPath":"/x"}})";

class EditsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    host_.File("bundle/rootfs/lib64/libc.so.6", FakeElf({"GLIBC_2.31"}));
    host_.Folder("container");
    host_.Folder("sim");
    host_.File("libkrux.so", FakeElf({"X"}));
    host_.File("libcuda.so.1", FakeElf({"X"}));
    answer_.granted = true;
    answer_.device_nodes = {"/dev/null"};
    answer_.driver_files = {host_ / "libcuda.so.1"};
    answer_.mounts = {{host_ / "container", "/run/krux", true},
                      {host_ / "sim", "/run/krux-sim", false}};
    answer_.limiter_path = host_ / "libkrux.so";
  }
  Status Edit(Json& spec, bool allow_privileged = false) {
    return EditWithGrant(spec, answer_,
                         {host_ / "bundle", host_ / "bundle/rootfs", allow_privileged});
  }

  TempFolder host_;
  api::CreateAnswer answer_;
};

TEST_F(EditsTest, AGrantBringsDevicesLibrariesLimiterAndFolders) {
  Json spec = ParseSpec(kSpec).value();
  const Status edited = Edit(spec);
  ASSERT_TRUE(edited) << edited.error().message;
  std::vector<std::string> destinations;
  for (const Json& mount : spec["mounts"]) destinations.push_back(mount["destination"]);
  EXPECT_EQ(destinations,
            (std::vector<std::string>{"/proc", "/run/krux", "/run/krux-sim", "/lib64/libcuda.so.1",
                                      "/usr/lib/krux/libkrux.so", "/etc/ld.so.preload"}));
  EXPECT_EQ(spec["mounts"][2]["options"][1], "rw");
  EXPECT_EQ(SpecToText(spec["process"]["env"]), R"(["PATH=/bin","NVIDIA_VISIBLE_DEVICES=void"])");
  EXPECT_EQ(spec["linux"]["devices"][0]["path"], "/dev/null");
  EXPECT_EQ(spec["futureField"]["x"], 1);
  EXPECT_EQ(Slurp(host_ / "bundle/krux-ld.so.preload"), "/usr/lib/krux/libkrux.so\n");
}

TEST_F(EditsTest, EditingTwiceIsEditingOnce) {
  Json spec = ParseSpec(kSpec).value();
  ASSERT_TRUE(Edit(spec));
  const Json once = spec;
  ASSERT_TRUE(Edit(spec));
  EXPECT_EQ(spec["mounts"].size(), once["mounts"].size());
  EXPECT_EQ(spec["linux"]["devices"].size(), once["linux"]["devices"].size());
  EXPECT_EQ(spec["process"]["env"], once["process"]["env"]);
}

TEST_F(EditsTest, NoGrantAddsNothing) {
  Json spec = ParseSpec(kSpec).value();
  ASSERT_TRUE(EditWithoutGrant(spec));
  Json expected = ParseSpec(kSpec).value();
  expected["process"]["env"] = {"PATH=/bin"};
  EXPECT_EQ(SpecToText(spec), SpecToText(expected));
}

TEST_F(EditsTest, PrivilegedContainersNeedTheNodesPermission) {
  Json spec =
      ParseSpec(R"({"linux":{"resources":{"devices":[{"allow":true,"access":"rwm"}]}}})").value();
  const Status refused = Edit(spec);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("privileged"), std::string::npos);
  EXPECT_TRUE(Edit(spec, /*allow_privileged=*/true));
}

TEST_F(EditsTest, RefusesIncompleteAnswersAndUnfitImages) {
  Json spec = ParseSpec(kSpec).value();
  const api::CreateAnswer good = answer_;
  answer_.limiter_path.clear();
  EXPECT_FALSE(Edit(spec));
  answer_ = good;
  answer_.mounts.clear();
  EXPECT_FALSE(Edit(spec));
  answer_ = good;
  answer_.mounts[0].read_only = false;
  EXPECT_FALSE(Edit(spec));
  answer_ = good;
  std::filesystem::remove_all(host_ / "bundle/rootfs/lib64");
  EXPECT_FALSE(Edit(spec));
}

}  // namespace
}  // namespace krux::runtime
