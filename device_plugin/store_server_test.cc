#include "device_plugin/store_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdlib>

#include <filesystem>

#include "common/unix_socket.h"

namespace krux::device_plugin {
namespace {

using testing::ElementsAre;

constexpr int kLimitMs = 5000;

class StoreServerTest : public testing::Test {
 protected:
  StoreServerTest() {
    char pattern[] = "/tmp/krux-store-test.XXXXXX";
    EXPECT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/plugin.sock";
  }
  ~StoreServerTest() override { std::filesystem::remove_all(folder_); }

  static UniqueFd Page(const std::string& text) {
    UniqueFd fd(memfd_create("page", MFD_CLOEXEC));
    EXPECT_EQ(write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return fd;
  }
  static std::string Read(const UniqueFd& fd) {
    char text[64] = {};
    const ssize_t size = pread(fd.get(), text, sizeof text, 0);
    return std::string(text, size > 0 ? static_cast<size_t>(size) : 0);
  }

  std::string folder_;
  std::string path_;
};

TEST_F(StoreServerTest, KeepsAPageAfterTheAgentThatPutItIsGone) {
  const auto server = StoreServer::Start(path_).value();
  ASSERT_TRUE(fd_store::Put(path_, "c1", Page("account of c1").get(), kLimitMs));
  EXPECT_EQ(Read(fd_store::Get(path_, "c1", kLimitMs).value()), "account of c1");
  EXPECT_EQ(Read(fd_store::Get(path_, "c1", kLimitMs).value()), "account of c1");
  EXPECT_THAT(fd_store::List(path_, kLimitMs).value(), ElementsAre("c1"));
  ASSERT_TRUE(fd_store::Drop(path_, "c1", kLimitMs));
  EXPECT_EQ(fd_store::Get(path_, "c1", kLimitMs).error().code, ErrorCode::kNotFound);
}

TEST_F(StoreServerTest, OnlyItsOwnerMayUseTheSocketFile) {
  const auto server = StoreServer::Start(path_).value();
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST_F(StoreServerTest, AClientThatSaysNothingOrNonsenseHurtsNobody) {
  const auto server = StoreServer::Start(path_).value();
  const UniqueFd silent = ConnectUnix(path_).value();
  const UniqueFd rude = ConnectUnix(path_).value();
  ASSERT_TRUE(SendMessage(rude.get(), "\xff\xfe{"));
  EXPECT_TRUE(fd_store::Put(path_, "c1", Page("x").get(), kLimitMs));
}

TEST_F(StoreServerTest, ReplacesTheSocketOfADeadInstance) {
  {
    const UniqueFd dead = ListenUnix(path_, 0600).value();
  }
  const auto server = StoreServer::Start(path_).value();
  EXPECT_TRUE(fd_store::Put(path_, "c1", Page("x").get(), kLimitMs));
}

TEST_F(StoreServerTest, ANewerInstanceTakesThePagesOver) {
  auto older = StoreServer::Start(path_).value();
  ASSERT_TRUE(fd_store::Put(path_, "c1", Page("account of c1").get(), kLimitMs));
  const auto newer = StoreServer::Start(path_).value();
  EXPECT_FALSE(older->OwnsSocket());
  EXPECT_TRUE(newer->OwnsSocket());
  older.reset();  // must not take the newer one's socket away
  EXPECT_EQ(Read(fd_store::Get(path_, "c1", kLimitMs).value()), "account of c1");
}

TEST_F(StoreServerTest, TheOlderInstanceServesAgainWhenTheNewerDies) {
  const auto older = StoreServer::Start(path_).value();
  auto newer = StoreServer::Start(path_).value();
  EXPECT_FALSE(older->OwnsSocket());
  newer.reset();
  EXPECT_TRUE(older->OwnsSocket());
  EXPECT_TRUE(fd_store::Put(path_, "c2", Page("x").get(), kLimitMs));
}

TEST_F(StoreServerTest, LeavesNoFileBehind) {
  StoreServer::Start(path_).value().reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace krux::device_plugin
