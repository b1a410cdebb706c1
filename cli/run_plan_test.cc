#include "cli/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace krux::cli {
namespace {

using ::testing::HasSubstr;

RunFlags Good() {
  RunFlags flags;
  flags.command = {"true"};
  return flags;
}

std::string Refused(const RunFlags& flags) {
  const auto plan = MakeRunPlan(flags);
  if (plan) return "accepted";
  EXPECT_EQ(plan.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(plan.error().message.find('\n'), std::string::npos) << "one sentence";
  return plan.error().message;
}

TEST(RunPlan, TakesAllFlags) {
  RunFlags flags = Good();
  flags.memory = "4GiB";
  flags.cores = "30";
  flags.policy = "fixed";
  flags.priority = "latency";
  flags.gpu = "GPU-01234567-89ab-cdef-0123-456789abcdef";
  flags.run_folder = "/tmp/x";
  const auto plan = MakeRunPlan(flags);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->grant.memory_mib, 4096U);
  EXPECT_EQ(plan->grant.cores, 30U);
  EXPECT_EQ(plan->grant.policy, ComputePolicy::kFixed);
  EXPECT_EQ(plan->grant.priority, Priority::kLatency);
  EXPECT_EQ(plan->grant.uuid, *flags.gpu);
  EXPECT_EQ(plan->run_folder, "/tmp/x");
}

TEST(RunPlan, DefaultsAreAllOfAnyCardWithoutGuarantee) {
  const auto plan = MakeRunPlan(Good());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->grant, GpuGrant{});
  EXPECT_EQ(plan->driver, "auto");
  EXPECT_FALSE(plan->gpu_index);
}

TEST(RunPlan, KnowsTheWordsForCards) {
  RunFlags flags = Good();
  flags.gpu = "3";
  EXPECT_EQ(MakeRunPlan(flags)->gpu_index, 3U);
  flags.gpu = "sim";
  EXPECT_EQ(MakeRunPlan(flags)->driver, "sim");
  flags.gpu = "auto";
  EXPECT_EQ(MakeRunPlan(flags)->driver, "auto");
  for (const char* wrong : {"", "-1", "GPU-1", "cuda:0", "99999999999"}) {
    flags.gpu = wrong;
    EXPECT_THAT(Refused(flags), HasSubstr("--gpu '")) << wrong;
  }
}

TEST(RunPlan, RefusesWrongSizes) {
  RunFlags flags = Good();
  for (const char* wrong : {"", "0", "0GiB", "-1", "4.5GiB", "4GB", "1e3", "99999999GiB", "x"}) {
    flags.memory = wrong;
    EXPECT_THAT(Refused(flags), HasSubstr("--gpumem '")) << wrong;
  }
}

TEST(RunPlan, RefusesWrongPercentages) {
  RunFlags flags = Good();
  for (const char* wrong : {"", "0", "101", "-5", "30%", "12.5", "4294967297"}) {
    flags.cores = wrong;
    EXPECT_THAT(Refused(flags), HasSubstr("--gpucores '")) << wrong;
  }
}

TEST(RunPlan, RefusesUnknownWords) {
  RunFlags flags = Good();
  flags.policy = "fair";
  EXPECT_THAT(Refused(flags), HasSubstr("fixed, balance or none"));
  flags = Good();
  flags.priority = "high";
  EXPECT_THAT(Refused(flags), HasSubstr("latency, normal or batch"));
  flags = Good();
  flags.run_folder = "here";
  EXPECT_THAT(Refused(flags), HasSubstr("absolute path"));
}

TEST(RunPlan, RefusesPoliciesThatDoNotFitTheCores) {
  RunFlags flags = Good();
  flags.policy = "fixed";
  EXPECT_THAT(Refused(flags), HasSubstr("needs --gpucores"));
  flags.policy = "none";
  flags.cores = "10";
  EXPECT_THAT(Refused(flags), HasSubstr("leave out --gpucores"));
}

TEST(RunPlan, RefusesAMissingCommand) {
  EXPECT_THAT(Refused(RunFlags{}), HasSubstr("no command"));
  RunFlags flags;
  flags.command = {""};
  EXPECT_THAT(Refused(flags), HasSubstr("no command"));
}

TEST(RunPlan, CutsWhatItRepeats) {
  RunFlags flags = Good();
  flags.cores = std::string(100'000, 'x');
  EXPECT_LT(Refused(flags).size(), 400U);
}

}  // namespace
}  // namespace krux::cli
