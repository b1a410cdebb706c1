#include "runtime/modifiers/libraries.h"

#include <gtest/gtest.h>

#include "runtime/testing/fake_elf.h"
#include "runtime/testing/temp_folder.h"

namespace krux::runtime {
namespace {

using testing::FakeElf;
using testing::TempFolder;

class LibrariesTest : public ::testing::Test {
 protected:
  void SetUp() override { host_.Folder("root"); }
  Result<Json> Add(const std::vector<std::string>& files, const std::string& limiter) {
    Json spec = Json::object();
    const ImageRoot root = ImageRoot::Open(host_ / "root").value();
    MountPlan plan(spec, root);
    KRUX_RETURN_IF_ERROR(AddDriverFiles(plan, files, "/usr/lib"));
    KRUX_RETURN_IF_ERROR(AddLimiter(plan, limiter));
    KRUX_RETURN_IF_ERROR(plan.Finish());
    return spec["mounts"];
  }
  TempFolder host_;
};

TEST_F(LibrariesTest, GoesUnderTheirOwnNamesWhereTheLoaderLooks) {
  host_.File("driver/libcuda.so.580", FakeElf({"X"}));
  host_.Link("libcuda.so.580", "driver/libcuda.so.1");
  host_.Link("libcuda.so.535", "root/usr/lib/libcuda.so.1");  // left behind in the image
  const std::string limiter = host_.File("limiter-1.2.so", FakeElf({"X"}));
  const auto mounts = Add({host_ / "driver/libcuda.so.1"}, limiter);
  ASSERT_TRUE(mounts) << mounts.error().message;
  ASSERT_EQ(mounts->size(), 2u);
  EXPECT_EQ((*mounts)[0]["source"], host_ / "driver/libcuda.so.1");
  EXPECT_EQ((*mounts)[0]["destination"], "/usr/lib/libcuda.so.535");
  EXPECT_EQ((*mounts)[1]["source"], limiter);
  EXPECT_EQ((*mounts)[1]["destination"], "/usr/lib/krux/libkrux.so");
}

TEST_F(LibrariesTest, AnUnusableHostFileStopsTheContainer) {
  const std::string good = host_.File("good.so", FakeElf({"X"}));
  std::string wrong_machine = FakeElf({"X"});
  wrong_machine[offsetof(Elf64_Ehdr, e_machine)] = static_cast<char>(EM_AARCH64);
  const std::string bad[] = {
      host_ / "missing.so",
      host_.File("empty.so", ""),
      host_.File("text.so", "not a library"),
      host_.File("cut.so", FakeElf({"X"}).substr(0, 200)),
      host_.File("arm.so", wrong_machine),
      host_.Folder("folder.so"),
      "relative.so",
      "",
  };
  EXPECT_TRUE(Add({good}, good));
  for (const std::string& path : bad) {
    EXPECT_FALSE(Add({path}, good)) << path;
    const auto limiter = Add({good}, path);
    ASSERT_FALSE(limiter) << path;
    EXPECT_NE(limiter.error().message.find(path), std::string::npos) << limiter.error().message;
  }
}

}  // namespace
}  // namespace krux::runtime
