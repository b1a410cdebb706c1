#include "runtime/image_root.h"

#include <gtest/gtest.h>

#include "runtime/testing/temp_folder.h"

namespace krux::runtime {
namespace {

using testing::TempFolder;
using Type = ImageRoot::Type;

// An image in <folder>/root, beside a canary that it must never reach.
class ImageRootTest : public ::testing::Test {
 protected:
  void SetUp() override {
    image_.Folder("root");
    image_.File("canary", "host secret");
    image_.File("root/usr/lib/libc.so.6", "libc");
    image_.Link("usr/lib", "root/lib");
  }
  ImageRoot Open() { return ImageRoot::Open(image_ / "root").value(); }

  TempFolder image_;
};

TEST_F(ImageRootTest, FollowsLinksAsTheContainerWould) {
  image_.Link("/usr/lib/libc.so.6", "root/absolute");
  image_.Link("../../../../usr/lib/./libc.so.6", "root/usr/lib/climbing");
  const ImageRoot root = Open();
  for (const char* path : {"/usr/lib/libc.so.6", "/lib/libc.so.6", "lib//./libc.so.6", "/absolute",
                           "/usr/lib/climbing", "/../../usr/lib/libc.so.6"}) {
    const auto place = root.Locate(path);
    ASSERT_TRUE(place) << path;
    EXPECT_EQ(place->path, "/usr/lib/libc.so.6") << path;
    EXPECT_EQ(place->type, Type::kFile) << path;
    EXPECT_EQ(ImageRoot::Read(*place, 100).value(), "libc") << path;
  }
  EXPECT_FALSE(root.Locate("/usr/lib/libc.so.6")->through_link);
  EXPECT_TRUE(root.Locate("/lib/libc.so.6")->through_link);
  EXPECT_EQ(root.Locate("/")->path, "/");
  EXPECT_EQ(root.Locate("/")->type, Type::kFolder);
  EXPECT_EQ(root.Locate("/usr/..")->type, Type::kFolder);
}

TEST_F(ImageRootTest, NoLinkLeadsOutside) {
  image_.Link("../canary", "root/relative");
  image_.Link(image_ / "canary", "root/absolute");
  image_.Link("..", "root/up");
  image_.Link("/proc/self/root", "root/magic");
  const ImageRoot root = Open();
  for (const char* path : {"/relative", "/absolute", "/up/canary", "/magic/etc/passwd"}) {
    const auto place = root.Locate(path);
    ASSERT_TRUE(place) << path;
    EXPECT_EQ(place->type, Type::kMissing) << path << " reached " << place->path;
    EXPECT_FALSE(ImageRoot::Read(*place, 100)) << path;
  }
}

TEST_F(ImageRootTest, MissingPathsKeepTheNameThatWouldBeCreated) {
  image_.Link("/not/there", "root/dangling");
  const ImageRoot root = Open();
  EXPECT_EQ(root.Locate("/lib/krux/libkrux.so")->path, "/usr/lib/krux/libkrux.so");
  EXPECT_EQ(root.Locate("/lib/krux/libkrux.so")->type, Type::kMissing);
  EXPECT_EQ(root.Locate("/dangling/x")->path, "/not/there/x");
  EXPECT_FALSE(root.Locate("/missing/../usr"));
}

TEST_F(ImageRootTest, RefusesLoopsAndFilesUsedAsFolders) {
  image_.Link("loop", "root/loop");
  image_.Link("a/x", "root/a");  // grows with each step
  const ImageRoot root = Open();
  EXPECT_FALSE(root.Locate("/loop"));
  EXPECT_FALSE(root.Locate("/a/b"));
  EXPECT_FALSE(root.Locate("/usr/lib/libc.so.6/x"));
  EXPECT_FALSE(root.Locate("/" + std::string(300, 'n')));
}

TEST_F(ImageRootTest, ReadsRegularFilesOnlyAndOnlySoMuch) {
  ASSERT_EQ(mkfifo((image_ / "root/fifo").c_str(), 0600), 0);
  image_.File("root/large", std::string(101, 'x'));
  const ImageRoot root = Open();
  EXPECT_EQ(root.Locate("/fifo")->type, Type::kOther);
  EXPECT_FALSE(ImageRoot::Read(*root.Locate("/fifo"), 100));  // and does not hang
  EXPECT_FALSE(ImageRoot::Read(*root.Locate("/usr"), 100));
  EXPECT_EQ(ImageRoot::Read(*root.Locate("/large"), 100).error().code,
            ErrorCode::kResourceExhausted);
}

TEST_F(ImageRootTest, NeedsAFolder) {
  EXPECT_FALSE(ImageRoot::Open(image_ / "nothing"));
  EXPECT_FALSE(ImageRoot::Open(image_ / "canary"));
}

}  // namespace
}  // namespace krux::runtime
