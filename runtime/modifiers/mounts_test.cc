#include "runtime/modifiers/mounts.h"

#include <gtest/gtest.h>

#include "runtime/testing/temp_folder.h"

namespace krux::runtime {
namespace {

using testing::TempFolder;

class MountsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    host_.File("file", "x");
    host_.Folder("folder");
    host_.Folder("root");
  }
  // Plans one mount on a spec with the `others`, and gives the spec's mounts or the error.
  Result<Json> Bind(const std::string& source, const std::string& target,
                    MountPlan::Options options = {}, const std::string& others = "[]") {
    Json spec = ParseSpec(R"({"mounts":)" + others + "}").value();
    const ImageRoot root = ImageRoot::Open(host_ / "root").value();
    MountPlan plan(spec, root);
    KRUX_RETURN_IF_ERROR(plan.Bind(source, target, options));
    KRUX_RETURN_IF_ERROR(plan.Finish());
    return spec["mounts"];
  }

  TempFolder host_;
};

TEST_F(MountsTest, WritesBindMountsWithSafeOptions) {
  const auto mounts = Bind(host_ / "folder", "/run/krux");
  ASSERT_TRUE(mounts);
  EXPECT_EQ(SpecToText((*mounts)[0]),
            R"({"destination":"/run/krux","type":"bind","source":")" + (host_ / "folder") +
                R"(","options":["bind","ro","nosuid","nodev","rprivate","noexec"]})");
  const auto library =
      Bind(host_ / "file", "/usr/lib/x.so",
           {.access = MountPlan::Access::kReadWrite, .execution = MountPlan::Execution::kAllowed});
  EXPECT_EQ(SpecToText((*library)[0]["options"]), R"(["bind","rw","nosuid","nodev","rprivate"])");
}

TEST_F(MountsTest, ComesLastAndReplacesAMountOnTheSameTarget) {
  host_.Link("run", "root/var/run");
  host_.Link("/run", "root/var/run2");
  const auto mounts = Bind(host_ / "folder", "/run/krux", {},
                           R"([{"destination":"/run/krux","type":"bind","source":"/evil"},
                               {"destination":"/run","type":"tmpfs","source":"tmpfs"},
                               {"destination":"/var/run2/krux/","type":"bind","source":"/evil2"},
                               {"destination":"/run/krux/limits","type":"bind","source":"/evil3"},
                               {"destination":"/run/krux-sim","type":"bind","source":"/other"}])");
  ASSERT_TRUE(mounts) << mounts.error().message;
  ASSERT_EQ(mounts->size(), 4u);
  EXPECT_EQ((*mounts)[0]["destination"], "/run");
  EXPECT_EQ((*mounts)[3]["source"], host_ / "folder");
}

TEST_F(MountsTest, RefusesVolumesAboveTheTarget) {
  host_.Link("/run", "root/alias");
  for (const char* destination : {"/run", "/alias", "/"}) {
    const auto mounts = Bind(host_ / "folder", "/run/krux", {},
                             R"([{"destination":")" + std::string(destination) +
                                 R"(","type":"bind","source":"/data"}])");
    ASSERT_FALSE(mounts) << destination;
    EXPECT_NE(mounts.error().message.find("mount it elsewhere"), std::string::npos);
  }
  EXPECT_TRUE(Bind(host_ / "folder", "/run/krux", {},
                   R"([{"destination":"/run/krux2","type":"bind","source":"/data"},
                       {"destination":"/ru","type":"bind","source":"/data"}])"));
}

TEST_F(MountsTest, LinksAreRefusedOrFollowedInsideTheImage) {
  host_.Link("/../../escape", "root/link");
  const auto refused = Bind(host_ / "file", "/link");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("symbolic link"), std::string::npos);
  const auto followed = Bind(host_ / "file", "/link", {.links = MountPlan::Links::kFollowed});
  ASSERT_TRUE(followed);
  EXPECT_EQ((*followed)[0]["destination"], "/escape");
}

TEST_F(MountsTest, RefusesWrongTypesPathsAndSources) {
  host_.Folder("root/folder");
  host_.File("root/file", "x");
  ASSERT_EQ(mkfifo((host_ / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(Bind(host_ / "file", "/folder"));
  EXPECT_FALSE(Bind(host_ / "folder", "/file"));
  EXPECT_FALSE(Bind(host_ / "missing", "/x"));
  EXPECT_FALSE(Bind(host_ / "fifo", "/x"));
  for (const char* path : {"", "/", "x", "/x/", "/x//y", "/x/../y", "/x/.", "/.."}) {
    EXPECT_FALSE(Bind(host_ / "file", path)) << path;
    EXPECT_FALSE(Bind(path, "/x")) << path;
  }
  EXPECT_FALSE(Bind(host_ / "file", "/x", {}, R"([{"source":"/y"}])"));
  EXPECT_FALSE(Bind(host_ / "file", "/x", {}, "[7]"));
  EXPECT_FALSE(Bind(host_ / "file", "/x", {}, "{}"));
}

}  // namespace
}  // namespace krux::runtime
