#include "runtime/modifiers/devices.h"

#include <gtest/gtest.h>

namespace krux::runtime {
namespace {

constexpr char kWithGpus[] = R"({"linux":{
  "devices":[{"path":"/dev/fuse","type":"c","major":10,"minor":229},
             {"path":"/dev/nvidia0","type":"c","major":195,"minor":0},
             {"path":"/dev/nvidia-uvm","type":"c","major":511,"minor":0},
             {"path":"/dev/renamed","type":"c","major":195,"minor":7}],
  "resources":{"devices":[{"allow":false,"access":"rwm"},
             {"allow":true,"type":"c","major":10,"minor":229,"access":"rw"},
             {"allow":true,"type":"c","major":195,"access":"rw"},
             {"allow":true,"type":"c","major":511,"minor":0,"access":"rw"},
             {"allow":true,"type":"c","major":511,"minor":9,"access":"rw"}],
             "memory":{"limit":1}}}})";

TEST(Devices, RemovesGpuNodesWithTheirRulesAndNothingElse) {
  Json spec = ParseSpec(kWithGpus).value();
  ASSERT_TRUE(RemoveGpuDevices(spec));
  EXPECT_EQ(SpecToText(spec), SpecToText(ParseSpec(R"({"linux":{
              "devices":[{"path":"/dev/fuse","type":"c","major":10,"minor":229}],
              "resources":{"devices":[{"allow":false,"access":"rwm"},
                {"allow":true,"type":"c","major":10,"minor":229,"access":"rw"},
                {"allow":true,"type":"c","major":511,"minor":9,"access":"rw"}],
                "memory":{"limit":1}}}})")
                                             .value()));
}

TEST(Devices, ASpecWithoutDevicesStaysAsItIs) {
  for (const char* text :
       {"{}", R"({"linux":{}})", R"({"linux":{"resources":{}}})",
        R"({"linux":{"devices":[7,{"path":1}],"resources":{"devices":["x"]}}})"}) {
    Json spec = ParseSpec(text).value();
    ASSERT_TRUE(RemoveGpuDevices(spec)) << text;
    EXPECT_EQ(SpecToText(spec), text);
  }
}

TEST(Devices, AddsNodesWithRulesAsTheyAreOnTheHost) {
  Json spec =
      ParseSpec(R"({"linux":{"resources":{"devices":[{"allow":false,"access":"rwm"}]}}})").value();
  ASSERT_TRUE(AddDevices(spec, {"/dev/null", "/dev/full"}));
  const Json& devices = spec["linux"]["devices"];
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0]["path"], "/dev/null");
  EXPECT_EQ(devices[0]["type"], "c");
  EXPECT_EQ(devices[0]["major"], 1);
  EXPECT_EQ(devices[0]["minor"], 3);
  const Json& rules = spec["linux"]["resources"]["devices"];
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0]["allow"], false);  // ours come after the rule that denies everything
  EXPECT_EQ(SpecToText(rules[2]),
            R"({"allow":true,"type":"c","major":1,"minor":7,"access":"rwm"})");
}

TEST(Devices, AddingTwiceKeepsOneNode) {
  Json spec = Json::object();
  ASSERT_TRUE(AddDevices(spec, {"/dev/null"}));
  ASSERT_TRUE(AddDevices(spec, {"/dev/null"}));
  EXPECT_EQ(spec["linux"]["devices"].size(), 1u);
}

TEST(Devices, RefusesWhatIsNoDeviceOfThisHost) {
  for (const char* path :
       {"/dev/krux-none", "/etc/passwd", "/dev/../etc/passwd", "/dev/shm", "null"}) {
    Json spec = Json::object();
    EXPECT_FALSE(AddDevices(spec, {path})) << path;
  }
  Json wrong = ParseSpec(R"({"linux":{"devices":{}}})").value();
  EXPECT_FALSE(AddDevices(wrong, {"/dev/null"}));
  EXPECT_FALSE(RemoveGpuDevices(wrong));
}

TEST(Devices, TellsPrivilegedContainers) {
  const auto every = [](const std::string& rule) {
    return AllowsEveryDevice(
        ParseSpec(R"({"linux":{"resources":{"devices":[)" + rule + "]}}}").value());
  };
  EXPECT_TRUE(every(R"({"allow":true,"access":"rwm"})"));
  EXPECT_TRUE(every(R"({"allow":true,"type":"a","access":"rwm"})"));
  EXPECT_TRUE(every(R"({"allow":true,"type":"c","major":-1,"minor":-1,"access":"r"})"));
  EXPECT_FALSE(every(R"({"allow":false,"access":"rwm"})"));
  EXPECT_FALSE(every(R"({"allow":true,"type":"c","access":"m"})"));  // containerd's default: mknod
  EXPECT_FALSE(every(R"({"allow":true,"type":"c","major":1,"minor":3,"access":"rwm"})"));
  EXPECT_FALSE(AllowsEveryDevice(Json::object()));
}

}  // namespace
}  // namespace krux::runtime
