#include "device_plugin/node_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <cstdlib>

#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/file.h"
#include "device_plugin/api_server.h"

namespace krux::device_plugin {
namespace {

using testing::HasSubstr;

Inventory OneCard(bool healthy = true) { return {{{"GPU-1", "NVIDIA H200", 143771, healthy, ""}}}; }

TEST(KruxNodeTest, IsTheTextThatTheSchedulerReads) {
  EXPECT_EQ(nlohmann::json::parse(KruxNodeJson("n1", OneCard())), nlohmann::json::parse(R"({
    "apiVersion":"krux.io/v1alpha1","kind":"KruxNode","metadata":{"name":"n1"},
    "spec":{"gpus":[{"uuid":"GPU-1","model":"NVIDIA H200","memoryMiB":143771,"healthy":true}]}})"));
  EXPECT_EQ(nlohmann::json::parse(KruxNodeJson("n1", {}))["spec"]["gpus"], nlohmann::json::array());
  EXPECT_EQ(KruxNodePath("n1"), "/apis/krux.io/v1alpha1/kruxnodes/n1");
}

TEST(KruxNodeTest, TellsWhereCardsAreAndWhatTheyAreLinkedWith) {
  Inventory inventory = OneCard();
  inventory.gpus[0].numa_node = 1;
  inventory.gpus[0].linked_to = {"GPU-2", "GPU-3"};
  const auto gpu = nlohmann::json::parse(KruxNodeJson("n1", inventory))["spec"]["gpus"][0];
  EXPECT_EQ(gpu["numaNode"], 1);
  EXPECT_EQ(gpu["linkedTo"], nlohmann::json({"GPU-2", "GPU-3"}));
}

TEST(KruxNodeTest, RefusesNamesThatKubernetesWouldNot) {
  EXPECT_TRUE(CheckNodeName("ip-10-0-0-1.internal"));
  for (const char* name : {"", "Node", "a/b", "a?b", "../x", "a b"}) {
    EXPECT_EQ(CheckNodeName(name).error().code, ErrorCode::kInvalidArgument) << name;
  }
}

// The answers of an API server in order, and what it was sent.
class Answers {
 public:
  NodePublisher::Apply Apply() {
    return [this](const std::string& path, const std::string& json) -> Status {
      const std::lock_guard<std::mutex> lock(mutex_);
      EXPECT_EQ(path, KruxNodePath("n1"));
      sent_.push_back(json);
      changed_.notify_all();
      if (failures_ > 0) {
        --failures_;
        return Error{ErrorCode::kUnavailable, "away"};
      }
      return Ok();
    };
  }
  bool WaitForCalls(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return sent_.size() >= count; });
  }
  std::vector<std::string> sent() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sent_;
  }
  void Fail(int times) { failures_ = times; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> sent_;
  int failures_ = 0;
};

TEST(NodePublisherTest, PublishesEachChange) {
  Answers answers;
  NodePublisher publisher({.node = "n1"}, answers.Apply());
  const std::jthread thread([&](const std::stop_token& stop) { publisher.Run(stop); });
  publisher.Publish(OneCard());
  ASSERT_TRUE(answers.WaitForCalls(1));
  publisher.Publish(OneCard(false));
  ASSERT_TRUE(answers.WaitForCalls(2));
  EXPECT_EQ(answers.sent()[1], KruxNodeJson("n1", OneCard(false)));
}

TEST(NodePublisherTest, TriesAgainUntilItWorksThenRefreshes) {
  Answers answers;
  answers.Fail(3);
  NodePublisher publisher({.node = "n1",
                           .first_retry = kMillisecond,
                           .last_retry = 2 * kMillisecond,
                           .refresh = kMillisecond},
                          answers.Apply());
  const std::jthread thread([&](const std::stop_token& stop) { publisher.Run(stop); });
  publisher.Publish(OneCard());
  EXPECT_TRUE(answers.WaitForCalls(6));
}

TEST(NodePublisherTest, EndsWithoutEverHavingHadAnythingToSay) {
  Answers answers;
  NodePublisher publisher({.node = "n1"}, answers.Apply());
  std::jthread thread([&](const std::stop_token& stop) { publisher.Run(stop); });
  thread = {};
  EXPECT_TRUE(answers.sent().empty());
}

class ApiServerTest : public testing::Test {
 protected:
  ApiServerTest() {
    char pattern[] = "/tmp/krux-api-test.XXXXXX";
    EXPECT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
    token_ = folder_ + "/token";
    server_.Patch("/apis/.*", [this](const httplib::Request& request, httplib::Response& response) {
      request_ = request;
      response.status = status_;
      response.set_content(body_, "application/json");
    });
    const int port = server_.bind_to_any_port("127.0.0.1");
    url_ = "http://127.0.0.1:" + std::to_string(port);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~ApiServerTest() override {
    while (!server_.is_running()) std::this_thread::yield();
    server_.stop();
    thread_.join();
    std::filesystem::remove_all(folder_);
  }
  Status Apply() {
    return ApiServer({url_, "", token_}).Apply(KruxNodePath("n1"), KruxNodeJson("n1", OneCard()));
  }

  std::string folder_;
  std::string token_;
  httplib::Server server_;
  std::string url_;
  std::thread thread_;
  httplib::Request request_;
  int status_ = 200;
  std::string body_ = "{}";
};

TEST_F(ApiServerTest, AppliesWithTheTokenOfTheMoment) {
  ASSERT_TRUE(WriteFileAtomically(token_, "first\n", 0600));
  ASSERT_TRUE(Apply());
  EXPECT_EQ(request_.path, "/apis/krux.io/v1alpha1/kruxnodes/n1");
  EXPECT_EQ(request_.get_param_value("fieldManager"), "krux-device-plugin");
  EXPECT_EQ(request_.get_param_value("force"), "true");
  EXPECT_EQ(request_.get_header_value("Content-Type"), "application/apply-patch+yaml");
  EXPECT_EQ(request_.get_header_value("Authorization"), "Bearer first");
  EXPECT_EQ(request_.body, KruxNodeJson("n1", OneCard()));
  ASSERT_TRUE(WriteFileAtomically(token_, "second", 0600));
  ASSERT_TRUE(Apply());
  EXPECT_EQ(request_.get_header_value("Authorization"), "Bearer second");
}

TEST_F(ApiServerTest, SaysWhatTheServerSaid) {
  ASSERT_TRUE(WriteFileAtomically(token_, "t", 0600));
  status_ = 403;
  body_ = R"({"kind":"Status","message":"kruxnodes is forbidden"})";
  EXPECT_EQ(Apply().error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(Apply().error().message, HasSubstr("answered 403: kruxnodes is forbidden"));
  status_ = 404;
  EXPECT_EQ(Apply().error().code, ErrorCode::kNotFound);
  status_ = 503;
  body_ = "no json";
  EXPECT_EQ(Apply().error().code, ErrorCode::kUnavailable);
  body_ = std::string(1 << 20, 'x');  // longer than any answer that we read
  EXPECT_EQ(Apply().error().code, ErrorCode::kUnavailable);
}

TEST_F(ApiServerTest, NeedsAToken) {
  EXPECT_EQ(Apply().error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(WriteFileAtomically(token_, "two\nlines", 0600));
  EXPECT_EQ(Apply().error().code, ErrorCode::kInvalidArgument);
}

TEST(ApiServerTestAlone, AnAbsentServerIsUnavailable) {
  const Status status = ApiServer({"http://127.0.0.1:1", "", ""}).Apply("/apis/x", "{}");
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(status.error().message, HasSubstr("http://127.0.0.1:1"));
  EXPECT_EQ(ApiServer({"file:///etc", "", ""}).Apply("/passwd", "{}").error().code,
            ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace krux::device_plugin
