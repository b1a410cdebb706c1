#include "protocol/fd_store.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "protocol/agent_api.h"

namespace krux::fd_store {
namespace {

UniqueFd Memfd() { return UniqueFd(memfd_create("test", MFD_CLOEXEC)); }

ino_t InodeOf(int fd) {
  struct stat info{};
  return fstat(fd, &info) == 0 ? info.st_ino : 0;
}

Message Ask(const std::string& json, UniqueFd fd = UniqueFd()) {
  Message message{json, {}};
  if (fd.valid()) message.fds.push_back(std::move(fd));
  return message;
}

TEST(FdStoreTest, KeepsADescriptorUntilItIsDropped) {
  Store store;
  UniqueFd memfd = Memfd();
  const ino_t inode = InodeOf(memfd.get());
  EXPECT_TRUE(api::ParseEmptyAnswer(
      store.Handle(Ask(R"({"v":1,"op":"put","key":"c1"})", std::move(memfd))).json));
  EXPECT_EQ(InodeOf(store.Handle(Ask(R"({"v":1,"op":"get","key":"c1"})")).fd), inode);
  EXPECT_EQ(InodeOf(store.Handle(Ask(R"({"v":1,"op":"get","key":"c1"})")).fd), inode);
  EXPECT_TRUE(api::ParseEmptyAnswer(store.Handle(Ask(R"({"v":1,"op":"drop","key":"c1"})")).json));
  const auto gone =
      api::ParseEmptyAnswer(store.Handle(Ask(R"({"v":1,"op":"get","key":"c1"})")).json);
  EXPECT_EQ(gone.error().code, ErrorCode::kNotFound);
}

TEST(FdStoreTest, RefusesWhatIsWrong) {
  Store store;
  for (const char* json : {"", "[]", "{", R"({"op":"get","key":"a"})", R"({"v":1})",
                           R"({"v":1,"op":"eat","key":"a"})", R"({"v":1,"op":"put","key":"a"})",
                           R"({"v":1,"op":"get","key":"../a"})", R"({"v":1,"op":"get","key":7})"}) {
    EXPECT_FALSE(api::ParseEmptyAnswer(store.Handle(Ask(json)).json)) << json;
  }
  EXPECT_EQ(store.size(), 0u);
}

TEST(FdStoreTest, IsBounded) {
  Store store;
  for (size_t i = 0; i < kMaxStored; ++i) {
    ASSERT_TRUE(api::ParseEmptyAnswer(
        store.Handle(Ask(R"({"v":1,"op":"put","key":"c)" + std::to_string(i) + "\"}", Memfd()))
            .json));
  }
  const auto full = api::ParseEmptyAnswer(
      store.Handle(Ask(R"({"v":1,"op":"put","key":"one-more"})", Memfd())).json);
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
}

TEST(FdStoreTest, ClientAndStoreUnderstandEachOtherOverASocket) {
  std::string folder = "/tmp/krux-fd-store-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/plugin.sock";
  auto listener = ListenUnix(path, 0600);
  ASSERT_TRUE(listener);
  std::thread server([&] {
    Store store;
    for (int i = 0; i < 4; ++i) {
      pollfd waiter{listener->get(), POLLIN, 0};
      poll(&waiter, 1, 10'000);
      UniqueFd peer(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
      auto message = ReceiveMessage(peer.get(), 10'000);
      if (!message) continue;
      const auto answer = store.Handle(std::move(*message));
      const std::vector<int> fds =
          answer.fd >= 0 ? std::vector<int>{answer.fd} : std::vector<int>{};
      if (!SendMessage(peer.get(), answer.json, fds)) continue;
    }
  });
  const UniqueFd memfd = Memfd();
  EXPECT_TRUE(Put(path, "c1", memfd.get(), 10'000));
  const auto got = Get(path, "c1", 10'000);
  EXPECT_TRUE(got.has_value() && InodeOf(got->get()) == InodeOf(memfd.get()));
  EXPECT_EQ(List(path, 10'000).value_or(std::vector<std::string>{}),
            std::vector<std::string>{"c1"});
  EXPECT_TRUE(Drop(path, "c1", 10'000));
  server.join();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace krux::fd_store
