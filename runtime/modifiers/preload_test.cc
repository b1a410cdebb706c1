#include "runtime/modifiers/preload.h"

#include <gtest/gtest.h>

#include "runtime/testing/temp_folder.h"

namespace krux::runtime {
namespace {

using testing::Slurp;
using testing::TempFolder;

Result<std::string> Merge(const TempFolder& image) {
  return MergedPreload(ImageRoot::Open(image.path()).value());
}

TEST(Preload, PutsTheLimiterBeforeTheImagesOwn) {
  TempFolder image;
  EXPECT_EQ(Merge(image).value(), "/usr/lib/krux/libkrux.so\n");
  image.File("etc/ld.so.preload", "/usr/lib/own.so # kept\n");
  EXPECT_EQ(Merge(image).value(), "/usr/lib/krux/libkrux.so\n/usr/lib/own.so # kept\n");
}

TEST(Preload, RefusesLinksOtherTypesAndLargeFiles) {
  TempFolder host;
  host.File("secret", "host secret");
  TempFolder link;
  link.Link(host / "secret", "etc/ld.so.preload");
  TempFolder folder_link;
  folder_link.Link("/real-etc", "etc");
  TempFolder folder;
  folder.Folder("etc/ld.so.preload");
  TempFolder fifo;
  fifo.Folder("etc");
  ASSERT_EQ(mkfifo((fifo / "etc/ld.so.preload").c_str(), 0600), 0);
  TempFolder large;
  large.File("etc/ld.so.preload", std::string(kMaxPreloadBytes + 1, ' '));
  for (const TempFolder* image : {&link, &folder_link, &folder, &fifo, &large}) {
    EXPECT_FALSE(Merge(*image)) << image->path();
  }
}

TEST(Preload, IsWrittenIntoTheBundleAndMountedReadOnly) {
  TempFolder bundle;
  bundle.Folder("rootfs");
  const ImageRoot root = ImageRoot::Open(bundle / "rootfs").value();
  Json spec = Json::object();
  MountPlan plan(spec, root);
  ASSERT_TRUE(AddPreload(plan, bundle.path(), "text\n"));
  ASSERT_TRUE(plan.Finish());
  EXPECT_EQ(Slurp(bundle / kPreloadFileInBundle), "text\n");
  struct stat about{};
  ASSERT_EQ(stat((bundle / kPreloadFileInBundle).c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0644u);
  EXPECT_EQ(spec["mounts"][0]["destination"], "/etc/ld.so.preload");
  EXPECT_EQ(spec["mounts"][0]["options"][1], "ro");
}

}  // namespace
}  // namespace krux::runtime
