#include "cli/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace krux::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAnswer[] = R"({"v":1,"ok":true,"node":"n1","version":"0.1","driver":"sim",
 "gpus":[{"uuid":"GPU-1","model":"Sim","memoryMiB":8192,"grantedMiB":4096,"grantedCores":30,
          "trouble":""}],
 "pods":[{"uid":"u","namespace":"ns","name":"pod","private":false,"containers":[
   {"name":"main","id":"abc","gpus":[{"uuid":"GPU-1","memMiB":4096,"cores":30,"policy":"fixed",
     "priority":"normal","usedBytes":1048576,"share1s":0.301,"share60s":0.2,"holding":true}]}]},
  {"uid":"run-1","namespace":"","name":"run-1","private":true,"containers":[
   {"name":"main","id":"run-1","gpus":[{"uuid":"GPU-1","memMiB":1024,"cores":0}]}]}]})";

TEST(Status, ShowsCardsAndContainers) {
  const auto table = StatusTable(kAnswer);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_THAT(*table, HasSubstr("node n1, driver sim"));
  EXPECT_THAT(*table, HasSubstr("GPU-1  Sim    8 GiB   4 GiB    30 %"));
  EXPECT_THAT(*table, HasSubstr("ns/pod/main  GPU-1  1 MiB  4 GiB  30 %   30.1 %  20.0 %   fixed"));
  EXPECT_THAT(*table, HasSubstr("run-1"));
}

TEST(Top, ShowsWhatEachAskedAndGot) {
  const auto table = TopTable(kAnswer);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_THAT(*table, HasSubstr("node n1, driver sim"));
  EXPECT_THAT(*table, HasSubstr("ns/pod/main  GPU-1  1 MiB of 4 GiB  30 %   30.1 %  20.0 %"));
  EXPECT_THAT(*TopTable(R"({"v":1,"ok":true})"), HasSubstr("no containers"));
  EXPECT_FALSE(TopTable("[]"));
}

TEST(Top, GivesProgramsOneListOfObjects) {
  const auto text = TopJson(kAnswer);
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("\"container\":\"ns/pod/main\""));
  EXPECT_THAT(*text, HasSubstr("\"state\":\"running\""));
  EXPECT_EQ(*TopJson(R"({"v":1,"ok":true,"pods":[{"containers":[{"gpus":[7]}]}]})"), "[]\n");
}

TEST(Status, RepeatsTheAnswerForPrograms) {
  const auto text = StatusJson(kAnswer);
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("\"share1s\": 0.301"));
}

TEST(Status, GivesTheAgentsError) {
  const auto table = StatusTable(R"({"v":1,"ok":false,"code":4,"error":"root only"})");
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(table.error().message, "root only");
}

TEST(Status, SurvivesWhatItDoesNotKnow) {
  EXPECT_FALSE(StatusTable("not json"));
  EXPECT_FALSE(StatusTable("[]"));
  EXPECT_TRUE(StatusTable(R"({"v":1,"ok":true})"));
  EXPECT_TRUE(StatusTable(R"({"v":1,"ok":true,"gpus":7,"pods":{"a":3}})"));
  EXPECT_TRUE(
      StatusTable(R"({"v":1,"ok":true,"gpus":[1,"x",{"uuid":5}],"pods":[[],{"containers":[3]}]})"));
}

TEST(Status, LetsNoNameSteerTheTerminal) {
  const auto table =
      StatusTable("{\"v\":1,\"ok\":true,\"node\":\"a\\u001b[2Jb\",\"gpus\":[],\"pods\":[]}");
  ASSERT_TRUE(table);
  EXPECT_THAT(*table, Not(HasSubstr("\x1b")));
  EXPECT_THAT(*table, HasSubstr("a?[2Jb"));
}

}  // namespace
}  // namespace krux::cli
