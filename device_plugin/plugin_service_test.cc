#include "device_plugin/plugin_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <cstdlib>

#include <filesystem>
#include <future>

#include "common/unix_socket.h"
#include "device_plugin/plugin_server.h"
#include "protocol/agent_api.h"

namespace krux::device_plugin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PluginServiceTest : public testing::Test {
 protected:
  PluginServiceTest() {
    char pattern[] = "/tmp/krux-plugin-test.XXXXXX";
    EXPECT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
    agent_socket_ = folder_ + "/agent.sock";
  }
  ~PluginServiceTest() override {
    plugin_.reset();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Serve(const GateLimits& gate = {}) {
    server_ =
        PluginServer::Start(folder_, board_, {.agent_socket = agent_socket_, .gate = gate}).value();
    plugin_ = v1beta1::DevicePlugin::NewStub(grpc::CreateChannel(
        "unix:" + folder_ + "/" + server_->name(), grpc::InsecureChannelCredentials()));
  }
  grpc::Status Gate(const std::vector<std::string>& ids, grpc::ClientContext& context) {
    v1beta1::PreStartContainerRequest request;
    for (const std::string& id : ids) request.add_devices_ids(id);
    v1beta1::PreStartContainerResponse answer;
    return plugin_->PreStartContainer(&context, request, &answer);
  }
  grpc::Status Gate(const std::vector<std::string>& ids) {
    grpc::ClientContext context;
    return Gate(ids, context);
  }
  grpc::Status Allocate(const std::vector<std::string>& ids, v1beta1::AllocateResponse& answer) {
    v1beta1::AllocateRequest request;
    auto* container = request.add_container_requests();
    for (const std::string& id : ids) container->add_devices_ids(id);
    grpc::ClientContext context;
    return plugin_->Allocate(&context, request, &answer);
  }
  // An agent that takes one question and gives one answer (none when it is empty).
  std::future<api::GateRequest> Agent(const std::string& answer) {
    auto listener = std::make_shared<UniqueFd>(ListenUnix(agent_socket_, 0600).value());
    return std::async(std::launch::async, [listener, answer] {
      pollfd waiter{listener->get(), POLLIN, 0};
      poll(&waiter, 1, 10'000);
      const UniqueFd client(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
      const Message question = ReceiveMessage(client.get(), 10'000).value();
      if (!answer.empty()) {
        EXPECT_TRUE(SendMessage(client.get(), answer));
      }
      // An agent that is slow sees the end of the connection when the kubelet gives up.
      if (answer.empty()) {
        EXPECT_TRUE(ReceiveMessage(client.get(), 10'000)->bytes.empty());
      }
      return std::get<api::GateRequest>(api::ParseRequest(question.bytes).value());
    });
  }

  std::string folder_;
  std::string agent_socket_;
  SlotBoard board_;
  std::unique_ptr<PluginServer> server_;
  std::unique_ptr<v1beta1::DevicePlugin::Stub> plugin_;
};

TEST_F(PluginServiceTest, AllocateGivesNothingButMarkers) {
  Serve();
  v1beta1::AllocateResponse answer;
  ASSERT_TRUE(Allocate({"krux-12", "krux-3"}, answer).ok());
  ASSERT_EQ(answer.container_responses_size(), 1);
  const auto& envs = answer.container_responses(0).envs();
  EXPECT_EQ(envs.size(), 2U);
  EXPECT_EQ(envs.at("NVIDIA_VISIBLE_DEVICES"), "void");
  EXPECT_EQ(envs.at("KRUX_SLOT"), "krux-3,krux-12");
}

TEST_F(PluginServiceTest, RefusesIdsThatAreNotItsOwn) {
  Serve();
  v1beta1::AllocateResponse answer;
  for (const char* id : {"", "krux-", "krux--1", "krux-01", "krux-1 ", "krux-99999999999999999999",
                         "GPU-1", "krux-16384"}) {
    const grpc::Status status = Allocate({id}, answer);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << id;
    EXPECT_THAT(status.error_message(), HasSubstr("krux: INVALID_ARGUMENT: device id"));
    EXPECT_EQ(Gate({id}).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << id;
  }
  EXPECT_EQ(Allocate({}, answer).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Gate({"krux-1", "krux-1"}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(PluginServiceTest, PrefersWhatMustBeIncludedThenLowNumbers) {
  Serve();
  v1beta1::PreferredAllocationRequest request;
  auto* container = request.add_container_requests();
  for (const char* id : {"krux-10", "krux-9", "odd", "krux-2"}) {
    container->add_available_deviceids(id);
  }
  container->add_must_include_deviceids("krux-10");
  container->set_allocation_size(2);
  v1beta1::PreferredAllocationResponse answer;
  grpc::ClientContext context;
  ASSERT_TRUE(plugin_->GetPreferredAllocation(&context, request, &answer).ok());
  EXPECT_THAT(answer.container_responses(0).deviceids(), ElementsAre("krux-10", "krux-2"));
}

TEST_F(PluginServiceTest, GateAsksTheAgent) {
  Serve();
  std::future<api::GateRequest> asked = Agent(api::EmptyAnswerJson());
  EXPECT_TRUE(Gate({"krux-1", "krux-0"}).ok());
  EXPECT_THAT(asked.get().device_ids, ElementsAre("krux-1", "krux-0"));
}

TEST_F(PluginServiceTest, GatePassesTheAgentsReasonOn) {
  Serve();
  std::future<api::GateRequest> asked = Agent(
      api::ErrorToJson(Error{ErrorCode::kResourceExhausted, "GPU-1 has 512 MiB left of 4096"}));
  const grpc::Status status = Gate({"krux-1"});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "krux: RESOURCE_EXHAUSTED: GPU-1 has 512 MiB left of 4096");
}

TEST_F(PluginServiceTest, GateSaysThatTheAgentIsAway) {
  Serve({.agent_ms = 1});
  const grpc::Status status = Gate({"krux-1"});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(),
              HasSubstr("krux: UNAVAILABLE: the Krux agent on this node is not running"));
}

TEST_F(PluginServiceTest, GateWaitsForAnAgentThatRestarts) {
  Serve({.agent_ms = 20'000});
  std::future<grpc::Status> gate =
      std::async(std::launch::async, [this] { return Gate({"krux-1"}); });
  std::future<api::GateRequest> asked = Agent(api::EmptyAnswerJson());
  EXPECT_TRUE(gate.get().ok());
}

TEST_F(PluginServiceTest, GateSurvivesDamagedAnswers) {
  Serve();
  for (const char* damaged : {"{", "[]", R"({"v":1,"ok":"yes"})", R"({"ok":false})"}) {
    std::future<api::GateRequest> asked = Agent(damaged);
    EXPECT_EQ(Gate({"krux-1"}).error_code(), grpc::StatusCode::DATA_LOSS) << damaged;
  }
}

TEST_F(PluginServiceTest, GateEndsInTime) {
  Serve({.answer_ms = 150});
  std::future<api::GateRequest> asked = Agent("");
  EXPECT_EQ(Gate({"krux-1"}).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  asked.get();
}

TEST_F(PluginServiceTest, GateLetsGoWhenTheKubeletDoes) {
  Serve();
  std::future<api::GateRequest> asked = Agent("");
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_FALSE(Gate({"krux-1"}, context).ok());
  asked.get();  // ends only when the plugin has closed the connection
}

}  // namespace
}  // namespace krux::device_plugin
