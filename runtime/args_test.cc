#include "runtime/args.h"

#include <gtest/gtest.h>

namespace krux::runtime {
namespace {

using Words = std::vector<std::string>;

struct Row {
  Words arguments;
  Verb verb;
  std::string bundle;
  std::string id;
  std::string log;
};

TEST(Args, FindsVerbBundleIdAndLog) {
  const Row rows[] = {
      {{"--root", "/run/r", "--log", "/l.json", "--log-format", "json", "create", "--bundle", "/b",
        "--pid-file", "/p", "abc"},
       Verb::kCreate,
       "/b",
       "abc",
       "/l.json"},
      {{"--root=/run/r", "--log=/l.json", "--systemd-cgroup", "create", "-b=/b", "abc"},
       Verb::kCreate,
       "/b",
       "abc",
       "/l.json"},
      {{"-log", "/l", "-debug", "create", "abc"}, Verb::kCreate, ".", "abc", "/l"},
      {{"create", "abc", "--bundle", "/b"}, Verb::kCreate, "/b", "abc", ""},
      {{"create", "--bundle", "/b", "--", "abc"}, Verb::kCreate, "/b", "abc", ""},
      {{"run", "-d", "--bundle", "/b", "abc"}, Verb::kCreate, "/b", "abc", ""},
      {{"create", "--console-socket", "/create", "--no-pivot", "--preserve-fds", "3", "run"},
       Verb::kCreate,
       ".",
       "run",
       ""},
      {{"--rootless", "false", "delete", "--force", "abc"}, Verb::kDelete, ".", "abc", ""},
      {{"--newer-flag=1", "create", "abc"}, Verb::kCreate, ".", "abc", ""},
  };
  for (const Row& row : rows) {
    const Args args = ParseArgs(row.arguments);
    const std::string what = testing::PrintToString(row.arguments);
    EXPECT_FALSE(args.refusal) << what;
    EXPECT_EQ(args.verb, row.verb) << what;
    EXPECT_EQ(args.bundle, row.bundle) << what;
    EXPECT_EQ(args.container_id, row.id) << what;
    EXPECT_EQ(args.log_path, row.log) << what;
  }
  EXPECT_TRUE(ParseArgs({"--log-format=json", "create", "x"}).log_is_json);
  EXPECT_FALSE(ParseArgs({"--log-format", "text", "create", "x"}).log_is_json);
}

TEST(Args, EverythingElsePassesThrough) {
  const Words rows[] = {
      {},
      {"--version"},
      {"--root", "create", "state", "abc"},  // the value of --root is no verb
      {"start", "create"},                   // a container named create
      {"exec", "--process", "/p", "abc"},
      {"kill", "--all", "abc", "9"},
      {"features"},
      {"--unknown", "state", "abc"},
      {"create"},  // no id: the real runtime says so
      {"create", "--help"},
      {"delete"},
      {"--root"},
      {"--"},
      {"restore", "--bundle", "/b", "abc"},
  };
  for (const Words& row : rows) {
    const Args args = ParseArgs(row);
    EXPECT_EQ(args.verb, Verb::kPassThrough) << testing::PrintToString(row);
    EXPECT_FALSE(args.refusal) << testing::PrintToString(row);
  }
}

TEST(Args, RefusesWhatItCannotUnderstandSafely) {
  const Words rows[] = {
      {"--unknown", "create", "abc"},
      {"create", "--config", "/other.json", "abc"},
      {"create", "../abc"},
      {"create", ".."},
      {"create", "a/b"},
      {"create", std::string(1025, 'a')},
      {"delete", "a b"},
  };
  for (const Words& row : rows) {
    EXPECT_TRUE(ParseArgs(row).refusal) << testing::PrintToString(row);
  }
}

}  // namespace
}  // namespace krux::runtime
