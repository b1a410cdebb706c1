#include "common/file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

namespace krux {
namespace {

class FileTest : public testing::Test {
 protected:
  FileTest() {
    char pattern[] = "/tmp/krux-file-test.XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(FileTest, WritesWhatItReadsWithTheModeAsked) {
  const std::string path = folder_ + "/f";
  ASSERT_TRUE(WriteFileDurably(path, "first", 0644));
  ASSERT_TRUE(WriteFileAtomically(path, "second", 0600));
  EXPECT_EQ(ReadFile(path, 100).value(), "second");
  struct stat st{};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600U);
}

TEST_F(FileTest, LeavesTheOldTextWhenTheFolderIsGone) {
  const auto status = WriteFileDurably(folder_ + "/missing/f", "x", 0600);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
  EXPECT_NE(status.error().message.find("missing/f"), std::string::npos);
}

TEST_F(FileTest, RefusesAFileLargerThanAllowed) {
  const std::string path = folder_ + "/f";
  ASSERT_TRUE(WriteFileAtomically(path, std::string(101, 'x'), 0600));
  EXPECT_EQ(ReadFile(path, 100).error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(ReadFile(path, 101).value().size(), 101U);
}

TEST_F(FileTest, ReadsProcFilesWhoseSizeReadsZero) {
  EXPECT_FALSE(ReadFile("/proc/self/status", 1 << 20).value().empty());
}

TEST_F(FileTest, MakesFoldersOnce) {
  ASSERT_TRUE(MakeDirectories(folder_ + "/a/b/c", 0755));
  ASSERT_TRUE(MakeDirectories(folder_ + "/a/b/c", 0755));
  EXPECT_TRUE(std::filesystem::is_directory(folder_ + "/a/b/c"));
}

}  // namespace
}  // namespace krux
