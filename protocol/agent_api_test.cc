#include "protocol/agent_api.h"

#include <gtest/gtest.h>

namespace krux::api {
namespace {

const GpuGrant kGpu{"GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", 4096, 30, ComputePolicy::kFixed,
                    Priority::kBatch};

TEST(AgentApi, RequestsComeBackAsTheyWereWritten) {
  const Request requests[] = {
      CreateRequest{"id", "uid", "ns", "pod", "main", "/kubepods/poduid/id"},
      DeleteRequest{"id"},
      GateRequest{{"krux-0", "krux-7"}},
      RunRequest{{kGpu}},
      SetRequest{"ns/pod", 30, "fixed"},
      StatusRequest{},
  };
  for (const Request& request : requests) {
    EXPECT_EQ(ParseRequest(RequestToJson(request)).value(), request) << RequestToJson(request);
  }
}

TEST(AgentApi, AnswersComeBackAsTheyWereWritten) {
  const CreateAnswer create{true,
                            "",
                            {"/dev/nvidia0"},
                            {"/lib/libcuda.so.1"},
                            {{"/run/krux/containers/x", "/run/krux", true}},
                            "/opt/libkrux.so"};
  EXPECT_EQ(ParseCreateAnswer(AnswerToJson(create)).value(), create);
  const RunAnswer run{"/run/krux/containers/x", {kGpu}, "/opt/libkrux.so", {"/opt/sim"}};
  EXPECT_EQ(ParseRunAnswer(AnswerToJson(run)).value(), run);
  EXPECT_TRUE(ParseEmptyAnswer(EmptyAnswerJson()));
}

TEST(AgentApi, ErrorsKeepTheirCodeAndText) {
  const std::string text = ErrorToJson({ErrorCode::kResourceExhausted, "no room \xff on the card"});
  const auto result = ParseCreateAnswer(text);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(result.error().message.find("no room"), std::string::npos);
}

TEST(AgentApi, WrongRequestsGetOneSentenceThatNamesTheField) {
  struct Row {
    const char* text;
    const char* said;
  };
  const Row rows[] = {
      {"", "JSON object"},
      {"[]", "JSON object"},
      {R"({"op":"status"})", "'v'"},
      {R"({"v":2,"op":"status"})", "'v'"},
      {R"({"v":1,"op":"explode"})", "explode"},
      {R"({"v":1,"op":"create","containerId":""})", "containerId"},
      {R"({"v":1,"op":"create","containerId":"x","podUid":7})", "podUid"},
      {R"({"v":1,"op":"gate","deviceIds":[1]})", "deviceIds"},
      {R"({"v":1,"op":"gate"})", "deviceIds"},
      {R"({"v":1,"op":"set","target":"","cores":5,"policy":""})", "target"},
      {R"({"v":1,"op":"set","target":"a/b","cores":101,"policy":""})", "cores"},
      {R"({"v":1,"op":"set","target":"a/b","cores":5,"policy":"most"})", "most"},
      {R"({"v":1,"op":"run","gpus":[]})", "gpus"},
      {R"({"v":1,"op":"run","gpus":[{"uuid":"","memMiB":0}]})", "memMiB"},
  };
  for (const Row& row : rows) {
    const auto result = ParseRequest(row.text);
    ASSERT_FALSE(result) << row.text;
    EXPECT_NE(result.error().message.find(row.said), std::string::npos)
        << row.text << ": " << result.error().message;
  }
}

TEST(AgentApi, SaysThatTheAgentIsNotThere) {
  const auto result = Ask("/tmp/krux-no-such-agent.sock", StatusRequest{}, 100);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("the Krux agent"), std::string::npos);
}

}  // namespace
}  // namespace krux::api
