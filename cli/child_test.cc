#include "cli/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace krux::cli {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

Session Granted() {
  Session session;
  session.answer.folder = "/run/krux-local/containers/run-1";
  session.answer.limiter_path = "/opt/libkrux.so";
  session.answer.gpus.resize(2);
  session.answer.gpus[0].uuid = "GPU-a";
  session.answer.gpus[1].uuid = "GPU-b";
  session.sim_folder = "/run/krux-sim";
  return session;
}

TEST(ChildEnvironment, PutsTheLimiterFirst) {
  const auto environment =
      ChildEnvironment({"LD_PRELOAD=/x.so", "HOME=/root", "CUDA_VISIBLE_DEVICES=7"}, Granted());
  EXPECT_THAT(environment,
              UnorderedElementsAre("LD_PRELOAD=/opt/libkrux.so:/x.so", "HOME=/root",
                                   "CUDA_VISIBLE_DEVICES=GPU-a,GPU-b",
                                   "KRUX_CONTAINER_FOLDER=/run/krux-local/containers/run-1"));
}

TEST(ChildEnvironment, NamesTheSimulatedCardsLibrariesOnlyWhenUsed) {
  Session session = Granted();
  session.answer.driver_folders = {"/a/sim", "/b"};
  const auto environment = ChildEnvironment({"LD_LIBRARY_PATH=/usr/local/lib"}, session);
  EXPECT_THAT(environment, Contains("LD_LIBRARY_PATH=/a/sim:/b:/usr/local/lib"));
  EXPECT_THAT(environment, Contains("KRUX_SIM_FOLDER=/run/krux-sim"));
  EXPECT_THAT(ChildEnvironment({}, Granted()), Not(Contains(StartsWith("KRUX_SIM_FOLDER="))));
}

TEST(ChildEnvironment, LeavesNamesThatOnlyBeginAlike) {
  const auto environment = ChildEnvironment({"LD_PRELOADED=1", "LD_PRELOAD=", "odd"}, Granted());
  EXPECT_THAT(environment, Contains("LD_PRELOADED=1"));
  EXPECT_THAT(environment, Contains("odd"));
  EXPECT_THAT(environment, Contains("LD_PRELOAD=/opt/libkrux.so"));
  EXPECT_THAT(environment, Not(Contains("LD_PRELOAD=")));
}

}  // namespace
}  // namespace krux::cli
