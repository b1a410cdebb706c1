#include "runtime/modifiers/environment.h"

#include <gtest/gtest.h>

namespace krux::runtime {
namespace {

TEST(Environment, TakesOutWhatAsksForGpusOrLimits) {
  Json spec = ParseSpec(R"({"process":{"env":["PATH=/bin","NVIDIA_VISIBLE_DEVICES=void",
    "NVIDIA_VISIBLE_DEVICES=all","NVIDIA_DRIVER_CAPABILITIES=all","CUDA_DEVICE_MEMORY_LIMIT_0=9g",
    "CUDA_DEVICE_SM_LIMIT=100","KRUX_CONTAINER_FOLDER=/tmp","NVIDIA_TF32_OVERRIDE=0",
    "CUDA_VISIBLE_DEVICES=0","LD_PRELOAD=/x.so","NVIDIA_BARE","MY_NVIDIA_X=1"]}})")
                  .value();
  ASSERT_TRUE(CleanEnvironment(spec));
  EXPECT_EQ(SpecToText(spec["process"]["env"]),
            R"(["PATH=/bin","NVIDIA_TF32_OVERRIDE=0","CUDA_VISIBLE_DEVICES=0","LD_PRELOAD=/x.so",)"
            R"("MY_NVIDIA_X=1"])");
  ASSERT_TRUE(MarkEnvironment(spec));
  EXPECT_EQ(spec["process"]["env"].back(), "NVIDIA_VISIBLE_DEVICES=void");
}

TEST(Environment, ASpecWithoutProcessStaysAsItIs) {
  Json spec = Json::object();
  ASSERT_TRUE(CleanEnvironment(spec));
  ASSERT_TRUE(MarkEnvironment(spec));
  EXPECT_EQ(SpecToText(spec), "{}");
}

TEST(Environment, RefusesWrongTypes) {
  for (const char* text :
       {R"({"process":7})", R"({"process":{"env":{}}})", R"({"process":{"env":["A=1",2]}})"}) {
    Json spec = ParseSpec(text).value();
    EXPECT_FALSE(CleanEnvironment(spec)) << text;
  }
}

}  // namespace
}  // namespace krux::runtime
