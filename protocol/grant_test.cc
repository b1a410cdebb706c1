#include "protocol/grant.h"

#include <gtest/gtest.h>

#include "common/file.h"

namespace krux {
namespace {

std::string TestData(const char* name) {
  return ReadFile(std::string(KRUX_SOURCE_DIR "/protocol/testdata/") + name, kMaxGrantBytes)
      .value();
}

// Also read by the Go adapter's test: both sides agree on one file.
TEST(Grant, ReadsTheSharedExample) {
  const PodGrant grant = ParseGrant(TestData("grant-v1.json")).value();
  EXPECT_EQ(grant.node, "node-1");
  EXPECT_EQ(grant.generation, 7U);
  ASSERT_EQ(grant.containers.at("main").size(), 1U);
  EXPECT_EQ(grant.containers.at("main")[0].memory_mib, 4096U);
  EXPECT_EQ(grant.containers.at("main")[0].cores, 30U);
  EXPECT_EQ(grant.containers.at("main")[0].policy, ComputePolicy::kFixed);
  EXPECT_EQ(grant.containers.at("side")[1].priority, Priority::kLatency);
}

TEST(Grant, ComesBackAsItWasWritten) {
  const PodGrant grant = ParseGrant(TestData("grant-v1.json")).value();
  EXPECT_EQ(ParseGrant(GrantToJson(grant)).value(), grant);
}

struct Wrong {
  const char* what;
  const char* from;
  const char* to;
  const char* said;
};

// Each row damages one thing of the good example; the message must name it.
TEST(Grant, RefusesDamageAndNamesIt) {
  const Wrong rows[] = {
      {"version", "\"v\":1", "\"v\":2", "version 2"},
      {"no uid", "podUID", "podUiD", "podUID"},
      {"memory zero", "\"memMiB\":4096", "\"memMiB\":0", "memMiB"},
      {"memory negative", "\"memMiB\":4096", "\"memMiB\":-1", "memMiB"},
      {"memory fraction", "\"memMiB\":4096", "\"memMiB\":1.5", "memMiB"},
      {"memory text", "\"memMiB\":4096", "\"memMiB\":\"4096\"", "memMiB"},
      {"cores 101", "\"cores\":30", "\"cores\":101", "cores"},
      {"policy", "fixed", "greedy", "greedy"},
      {"priority", "batch", "urgent", "urgent"},
      {"uuid", "GPU-ffffffff", "GPU-fffffffg", "GPU-fffffffg"},
      {"twice", "GPU-ffffffff-ffff-ffff-ffff-ffffffffffff",
       "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "twice"},
      {"cut off", "}]}}", "}]}", "JSON"},
      {"containers", "\"containers\":{", "\"container\":{", "containers"},
  };
  for (const Wrong& row : rows) {
    std::string text = TestData("grant-v1.json");
    const size_t at = text.find(row.from);
    ASSERT_NE(at, std::string::npos) << row.what;
    text.replace(at, std::string(row.from).size(), row.to);
    const auto result = ParseGrant(text);
    ASSERT_FALSE(result) << row.what;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument) << row.what;
    EXPECT_NE(result.error().message.find(row.said), std::string::npos)
        << row.what << ": " << result.error().message;
  }
}

TEST(Grant, RefusesSizesThatNoGrantHas) {
  EXPECT_FALSE(ParseGrant(std::string(kMaxGrantBytes + 1, ' ')));
  EXPECT_FALSE(ParseGrant(std::string(10000, '[')));
  EXPECT_FALSE(ParseGrant(""));
}

TEST(GpuUuid, ConvertsBothWays) {
  const std::string text = "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
  const UuidBytes uuid = ParseGpuUuid(text).value();
  EXPECT_EQ(uuid.bytes[0], 0x0a);
  EXPECT_EQ(uuid.bytes[15], 0xf9);
  EXPECT_EQ(FormatGpuUuid(uuid), text);
  EXPECT_FALSE(ParseGpuUuid("MIG-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"));
}

}  // namespace
}  // namespace krux
