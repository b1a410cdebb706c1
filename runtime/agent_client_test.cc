#include "runtime/agent_client.h"

#include <gtest/gtest.h>

#include <deque>

namespace krux::runtime {
namespace {

// An agent that gives prepared answers, and a clock that moves only while somebody waits.
class FakeAgent {
 public:
  AgentClient Client(Nanos timeout) {
    return AgentClient({[this](const api::Request& request, int) { return Answer(request); },
                        [this] { return now_; }, [this](Nanos pause) { now_ += pause; }},
                       timeout);
  }
  void Say(Result<std::string> answer) { answers_.push_back(std::move(answer)); }
  int asked() const { return asked_; }
  const std::string& last() const { return last_; }

 private:
  Result<std::string> Answer(const api::Request& request) {
    ++asked_;
    last_ = api::RequestToJson(request);
    if (answers_.empty()) return Error{ErrorCode::kUnavailable, "nobody listens"};
    auto answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }
  std::deque<Result<std::string>> answers_;
  Nanos now_ = 0;
  int asked_ = 0;
  std::string last_;
};

const api::CreateRequest kRequest{"id", "uid", "ns", "pod", "main", "/kubepods/x"};

TEST(AgentClient, WaitsForAnAgentThatRestarts) {
  FakeAgent agent;
  agent.Say(Error{ErrorCode::kNotFound, "no socket"});
  agent.Say(Error{ErrorCode::kUnavailable, "refused"});
  agent.Say(Error{ErrorCode::kUnavailable, "closed without an answer"});
  agent.Say(api::AnswerToJson(api::CreateAnswer{.granted = true,
                                                .reason = "",
                                                .device_nodes = {},
                                                .driver_files = {},
                                                .mounts = {},
                                                .limiter_path = "/l"}));
  const auto answer = agent.Client(60 * kSecond).AskCreate(kRequest);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->granted);
  EXPECT_EQ(agent.asked(), 4);
  EXPECT_EQ(api::ParseRequest(agent.last()).value(), api::Request(kRequest));
}

TEST(AgentClient, GivesUpWhenTheTimeIsOver) {
  FakeAgent agent;
  const auto answer = agent.Client(kSecond).AskCreate(kRequest);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(answer.error().message.find("krux-agent"), std::string::npos);
  EXPECT_GE(agent.asked(), 9);
  EXPECT_LE(agent.asked(), 11);
}

TEST(AgentClient, AnAnsweredErrorIsFinal) {
  FakeAgent agent;
  agent.Say(api::ErrorToJson({ErrorCode::kResourceExhausted, "no room"}));
  const auto answer = agent.Client(60 * kSecond).AskCreate(kRequest);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(agent.asked(), 1);
}

TEST(AgentClient, DamagedAnswersAndForbiddenSocketsAreNotRetried) {
  FakeAgent damaged;
  damaged.Say(std::string("{\"ok\":"));
  EXPECT_FALSE(damaged.Client(60 * kSecond).AskCreate(kRequest));
  EXPECT_EQ(damaged.asked(), 1);
  FakeAgent forbidden;
  forbidden.Say(Error{ErrorCode::kPermissionDenied, "connecting"});
  EXPECT_FALSE(forbidden.Client(60 * kSecond).AskCreate(kRequest));
  EXPECT_EQ(forbidden.asked(), 1);
}

TEST(AgentClient, TellsDeletionOnce) {
  FakeAgent agent;
  EXPECT_FALSE(agent.Client(60 * kSecond).TellDeleted("id"));
  EXPECT_EQ(agent.asked(), 1);
  agent.Say(api::EmptyAnswerJson());
  EXPECT_TRUE(agent.Client(60 * kSecond).TellDeleted("id"));
  EXPECT_EQ(api::ParseRequest(agent.last()).value(), api::Request(api::DeleteRequest{"id"}));
}

}  // namespace
}  // namespace krux::runtime
