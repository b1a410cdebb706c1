#include "common/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace krux {
namespace {

class UnixSocketTest : public testing::Test {
 protected:
  UnixSocketTest() {
    char pattern[] = "/tmp/krux-socket-test.XXXXXX";
    folder_ = mkdtemp(pattern);
    path_ = folder_ + "/s";
  }
  ~UnixSocketTest() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
  std::string path_;
};

TEST_F(UnixSocketTest, PassesBytesAndDescriptorsAndTheEnd) {
  const UniqueFd listener = ListenUnix(path_, 0600).value();
  UniqueFd client = ConnectUnix(path_).value();
  const UniqueFd server(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(SendMessage(client.get(), "hello", {file.get()}));
  const Message message = ReceiveMessage(server.get(), 1000).value();
  EXPECT_EQ(message.bytes, "hello");
  ASSERT_EQ(message.fds.size(), 1U);
  EXPECT_NE(fcntl(message.fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(PeerOf(server.get()).value().pid, getpid());
  client.Reset();
  EXPECT_TRUE(ReceiveMessage(server.get(), 1000).value().bytes.empty());
}

TEST_F(UnixSocketTest, SaysWhoIsMissing) {
  EXPECT_EQ(ConnectUnix(path_).error().code, ErrorCode::kNotFound);
  {
    const UniqueFd listener = ListenUnix(path_, 0600).value();
  }
  EXPECT_EQ(ConnectUnix(path_).error().code, ErrorCode::kUnavailable);
}

TEST_F(UnixSocketTest, ReplacesADeadSocketButNeverALivingOne) {
  {
    const UniqueFd dead = ListenUnix(path_, 0600).value();
  }
  const UniqueFd living = ListenUnix(path_, 0600).value();
  EXPECT_EQ(ListenUnix(path_, 0600).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(UnixSocketTest, RefusesOversizeAndEmptyMessages) {
  const UniqueFd listener = ListenUnix(path_, 0600).value();
  const UniqueFd client = ConnectUnix(path_).value();
  EXPECT_FALSE(SendMessage(client.get(), ""));
  EXPECT_FALSE(SendMessage(client.get(), std::string(kMaxMessageBytes + 1, 'x')));
  EXPECT_FALSE(ConnectUnix(std::string(200, 'x')));
}

TEST_F(UnixSocketTest, EndsAWaitInTime) {
  const UniqueFd listener = ListenUnix(path_, 0600).value();
  const UniqueFd client = ConnectUnix(path_).value();
  EXPECT_EQ(ReceiveMessage(client.get(), 0).error().code, ErrorCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace krux
