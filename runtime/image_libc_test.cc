#include "runtime/image_libc.h"

#include <gtest/gtest.h>

#include "runtime/testing/fake_elf.h"
#include "runtime/testing/temp_folder.h"

namespace krux::runtime {
namespace {

using testing::FakeElf;
using testing::TempFolder;

Result<std::string> FolderOf(const TempFolder& image) {
  return FindLibraryFolder(ImageRoot::Open(image.path()).value());
}

const std::string kGlibc = FakeElf({"GLIBC_2.2.5", "GLIBC_2.36"});

TEST(ImageLibc, FindsDebianWithMergedUsr) {
  TempFolder image;
  image.File("usr/lib/x86_64-linux-gnu/libc.so.6", kGlibc);
  image.Link("usr/lib", "lib");
  EXPECT_EQ(FolderOf(image).value(), "/usr/lib/x86_64-linux-gnu");
}

TEST(ImageLibc, FindsRedHatAndOldDebianWithVersionedFile) {
  TempFolder red_hat;
  red_hat.File("usr/lib64/libc.so.6", kGlibc);
  red_hat.File("usr/lib/libc.so.6",
               "\x7f"
               "ELF\x01 a 32-bit one");
  red_hat.Link("usr/lib64", "lib64");
  red_hat.Link("usr/lib", "lib");
  EXPECT_EQ(FolderOf(red_hat).value(), "/usr/lib64");

  TempFolder debian;
  debian.File("lib/x86_64-linux-gnu/libc-2.28.so", FakeElf({"GLIBC_2.28"}));
  debian.Link("libc-2.28.so", "lib/x86_64-linux-gnu/libc.so.6");
  EXPECT_EQ(FolderOf(debian).value(), "/lib/x86_64-linux-gnu");
}

TEST(ImageLibc, RefusesImagesThatCannotLoadTheLimiter) {
  TempFolder musl;
  musl.File("lib/ld-musl-x86_64.so.1", FakeElf({}));
  TempFolder musl_with_a_shim;  // a compatibility file under glibc's name defines no GLIBC version
  musl_with_a_shim.File("lib/ld-musl-x86_64.so.1", FakeElf({}));
  musl_with_a_shim.File("lib64/libc.so.6", FakeElf({}));
  TempFolder scratch;
  TempFolder old;
  old.File("lib64/libc.so.6", FakeElf({"GLIBC_2.12"}));
  TempFolder planted;  // leads outside of the image
  planted.Link("/../../../../lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu");
  TempFolder not_a_file;
  ASSERT_EQ(mkdir((not_a_file / "lib64").c_str(), 0755), 0);
  ASSERT_EQ(mkfifo((not_a_file / "lib64/libc.so.6").c_str(), 0600), 0);

  struct Row {
    const TempFolder& image;
    const char* said;
  };
  const Row rows[] = {
      {musl, "musl"},           {musl_with_a_shim, "musl"},   {scratch, "no 64-bit glibc"},
      {old, "2.12 is too old"}, {planted, "no 64-bit glibc"}, {not_a_file, "no 64-bit glibc"}};
  for (const Row& row : rows) {
    const auto folder = FolderOf(row.image);
    ASSERT_FALSE(folder) << row.said;
    EXPECT_EQ(folder.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_NE(folder.error().message.find(row.said), std::string::npos) << folder.error().message;
  }
}

TEST(ImageLibc, TakesTheOldestSupported) {
  TempFolder image;
  image.File("lib64/libc.so.6", FakeElf({"GLIBC_2.17"}));
  EXPECT_EQ(FolderOf(image).value(), "/lib64");
}

}  // namespace
}  // namespace krux::runtime
