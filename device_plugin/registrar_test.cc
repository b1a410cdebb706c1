#include "device_plugin/registrar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cstdlib>

#include <atomic>
#include <filesystem>

#include "common/unix_socket.h"
#include "device_plugin/kubelet_double.h"

namespace krux::device_plugin {
namespace {

using testing::ElementsAre;
using View = KubeletDouble::View;

class RegistrarTest : public testing::Test {
 protected:
  RegistrarTest() : kubelet_(MakeFolder()), stop_(eventfd(0, EFD_CLOEXEC)) {
    board_.Set(Slots{4, true});
    // Tests that look for one trigger must not be saved by the slow poll.
    options_ = {.folder = folder_,
                .service = {.agent_socket = folder_ + "/no-agent"},
                .slow_poll = 600 * kSecond,
                .stream_limit = 600 * kSecond};
  }
  ~RegistrarTest() override {
    StopRegistrar();
    kubelet_.Stop();
    std::filesystem::remove_all(folder_);
  }

  std::string MakeFolder() {
    char pattern[] = "/tmp/krux-registrar-test.XXXXXX";
    EXPECT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
    return folder_;
  }
  void StartRegistrar() {
    thread_ = std::jthread([this] { Registrar(board_, options_).Run(stop_.get()); });
  }
  void StopRegistrar() {
    const uint64_t one = 1;
    ASSERT_EQ(write(stop_.get(), &one, sizeof one), 8);
    thread_ = {};
  }
  bool Registered(int times) {
    return kubelet_.WaitFor(
        [times](const View& view) { return view.registrations == times && view.healthy == 4; });
  }

  std::string folder_;
  KubeletDouble kubelet_;
  SlotBoard board_;
  Registrar::Options options_;
  UniqueFd stop_;
  std::jthread thread_;
};

TEST_F(RegistrarTest, RegistersSlotsAndItsOptions) {
  kubelet_.Start();
  StartRegistrar();
  ASSERT_TRUE(Registered(1));
  const View view = kubelet_.view();
  EXPECT_EQ(view.version, "v1beta1");
  EXPECT_EQ(view.resource, "krux.io/gpu");
  EXPECT_TRUE(view.options.pre_start_required());
  EXPECT_TRUE(view.options.get_preferred_allocation_available());
  EXPECT_THAT(view.ids, ElementsAre("krux-0", "krux-1", "krux-2", "krux-3"));
}

TEST_F(RegistrarTest, WaitsForAKubeletThatIsAbsentAtStart) {
  std::filesystem::remove(folder_);  // not even the folder is there
  StartRegistrar();
  while (!std::filesystem::exists(folder_)) std::this_thread::yield();
  kubelet_.Start();
  EXPECT_TRUE(Registered(1));
}

TEST_F(RegistrarTest, RegistersAgainUnderANewNameWhenTheKubeletRestarts) {
  kubelet_.Start();
  StartRegistrar();
  ASSERT_TRUE(Registered(1));
  const std::string first = kubelet_.view().endpoint;
  kubelet_.Stop();
  kubelet_.Start();
  ASSERT_TRUE(Registered(2));
  EXPECT_NE(kubelet_.view().endpoint, first);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/" + first));
}

TEST_F(RegistrarTest, RegistersAgainWhenItsSocketIsRemoved) {
  kubelet_.Start();
  StartRegistrar();
  ASSERT_TRUE(Registered(1));
  std::filesystem::remove(folder_ + "/" + kubelet_.view().endpoint);
  EXPECT_TRUE(Registered(2));
}

TEST_F(RegistrarTest, RegistersAgainWhenTheKubeletEndsTheStream) {
  kubelet_.Start();
  StartRegistrar();
  ASSERT_TRUE(Registered(1));
  kubelet_.EndStreams();
  EXPECT_TRUE(Registered(2));
}

TEST_F(RegistrarTest, StandsBackWhileANewerInstanceServes) {
  std::atomic<bool> newest{true};
  options_.may_register = [&] { return newest.load(); };
  kubelet_.Start();
  StartRegistrar();
  ASSERT_TRUE(Registered(1));
  newest = false;
  kubelet_.EndStreams();
  ASSERT_TRUE(kubelet_.WaitFor([](const View& view) { return view.live_streams == 0; }));
  newest = true;
  std::filesystem::create_directory(folder_ + "/anything");  // wakes it
  EXPECT_TRUE(Registered(2));
}

TEST_F(RegistrarTest, SendsChangesOnlyAndToEveryStream) {
  kubelet_.Start();
  StartRegistrar();
  ASSERT_TRUE(Registered(1));
  const auto plugin = kubelet_.Plugin();
  grpc::ClientContext context;
  const auto second = plugin->ListAndWatch(&context, v1beta1::Empty());
  v1beta1::ListAndWatchResponse response;
  ASSERT_TRUE(second->Read(&response));
  EXPECT_EQ(response.devices_size(), 4);
  board_.Set(Slots{4, true});  // no change
  board_.Set(Slots{4, false});
  ASSERT_TRUE(second->Read(&response));
  EXPECT_EQ(response.devices(3).health(), "Unhealthy");
  ASSERT_TRUE(kubelet_.WaitFor([](const View& view) { return view.messages == 2; }));
  EXPECT_EQ(kubelet_.view().healthy, 0);
  context.TryCancel();  // one stream of two: no reason to register again
  EXPECT_FALSE(second->Read(&response));
  board_.Set(Slots{4, true});
  ASSERT_TRUE(kubelet_.WaitFor([](const View& view) { return view.messages == 3; }));
  EXPECT_EQ(kubelet_.view().registrations, 1);
}

TEST_F(RegistrarTest, LeavesTheFolderAsItFoundIt) {
  kubelet_.Start();
  StartRegistrar();
  ASSERT_TRUE(Registered(1));
  StopRegistrar();
  kubelet_.EndStreams();
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(entry.path().filename(), "kubelet.sock");
  }
}

TEST_F(RegistrarTest, RemovesOnlySocketsOfDeadInstances) {
  const auto listen_on = [&](const std::string& name) {
    const sockaddr_un address = UnixAddress(folder_ + "/" + name).value();
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd.get(), 1), 0);
    return fd;
  };
  const UniqueFd living = listen_on("krux-living.sock");
  listen_on("krux-dead.sock").Reset();
  listen_on("other-dead.sock").Reset();
  RemoveStaleSockets(folder_);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/krux-living.sock"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/krux-dead.sock"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/other-dead.sock"));
}

}  // namespace
}  // namespace krux::device_plugin
