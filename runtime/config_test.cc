#include "runtime/config.h"

#include <gtest/gtest.h>

namespace krux::runtime {
namespace {

TEST(Config, ReadsEveryKeyAndKeepsDefaults) {
  const auto config = ParseConfig(
      R"({"agentSocket":"/x/agent.sock","runtime":"/usr/bin/crun","timeoutSeconds":5,"allowPrivileged":true})");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->agent_socket, "/x/agent.sock");
  EXPECT_EQ(config->runtime, "/usr/bin/crun");
  EXPECT_EQ(config->timeout_seconds, 5);
  EXPECT_TRUE(config->allow_privileged);
  const auto defaults = ParseConfig("{}");
  ASSERT_TRUE(defaults);
  EXPECT_EQ(defaults->agent_socket, "/run/krux/agent.sock");
  EXPECT_EQ(defaults->runtime, "runc");
  EXPECT_EQ(defaults->timeout_seconds, 60);
  EXPECT_FALSE(defaults->allow_privileged);
}

TEST(Config, WrongTextNamesTheKey) {
  struct Row {
    const char* text;
    const char* said;
  };
  const Row rows[] = {
      {"", "JSON object"},
      {"[1]", "JSON object"},
      {R"({"agentSocket":7})", "agentSocket"},
      {R"({"agentSocket":"agent.sock"})", "agentSocket"},
      {R"({"runtime":""})", "runtime"},
      {R"({"runtime":"./runc"})", "runtime"},
      {R"({"timeoutSeconds":0})", "timeoutSeconds"},
      {R"({"timeoutSeconds":601})", "timeoutSeconds"},
      {R"({"timeoutSeconds":99999999999999999999})", "timeoutSeconds"},
      {R"({"timeoutSeconds":"60"})", "timeoutSeconds"},
      {R"({"allowPrivileged":1})", "allowPrivileged"},
      {R"({"agentsocket":"/x"})", "agentsocket"},
  };
  for (const Row& row : rows) {
    const auto config = ParseConfig(row.text);
    ASSERT_FALSE(config) << row.text;
    EXPECT_NE(config.error().message.find(row.said), std::string::npos) << config.error().message;
  }
}

}  // namespace
}  // namespace krux::runtime
