#include "gpu/nvml.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/fake_nvml.h"

namespace krux::gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kFirst[] = "GPU-00000000-0000-0000-0000-000000000001";
constexpr char kSecond[] = "GPU-00000000-0000-0000-0000-000000000002";

class NvmlTest : public testing::Test {
 protected:
  NvmlTest() : library_(dlopen(KRUX_FAKE_NVML, RTLD_NOW)) {
    const auto state = reinterpret_cast<FakeNvmlState* (*)()>(dlsym(library_, "fake_nvml_state"));
    fake_ = state();
    *fake_ = FakeNvmlState{};
    fake_->cards.resize(2);
    fake_->cards[1].uuid = kSecond;
    fake_->cards[1].minor = 3;
  }
  ~NvmlTest() override { dlclose(library_); }

  void* library_;
  FakeNvmlState* fake_;
};

TEST_F(NvmlTest, ListsCards) {
  const auto nvml = OpenNvml(KRUX_FAKE_NVML).value();
  const DeviceList list = nvml->ListDevices().value();
  EXPECT_EQ(nvml->DriverVersion().value(), "580.65.06");
  EXPECT_TRUE(list.left_out.empty());
  ASSERT_EQ(list.devices.size(), 2U);
  EXPECT_EQ(list.devices[1],
            (Device{kSecond, "NVIDIA H200", 143771ULL << 20, 3, "00000000:1B:00.0"}));
}

TEST_F(NvmlTest, TellsWhereCardsAreAndWhatTheyAreLinkedWith) {
  fake_->cards[0].numa_node = 70;
  fake_->cards[0].linked_with = kSecond;
  const DeviceList list = OpenNvml(KRUX_FAKE_NVML).value()->ListDevices().value();
  ASSERT_EQ(list.devices.size(), 2U);
  EXPECT_EQ(list.devices[0].numa_node, 70);
  EXPECT_THAT(list.devices[0].linked_to, ElementsAre(std::string(kSecond)));
  EXPECT_EQ(list.devices[1].numa_node, -1);
  EXPECT_TRUE(list.devices[1].linked_to.empty());
}

TEST_F(NvmlTest, LeavesOutCardsWithMigAndSaysSo) {
  fake_->cards[0].mig = 1;
  const DeviceList list = OpenNvml(KRUX_FAKE_NVML).value()->ListDevices().value();
  ASSERT_EQ(list.devices.size(), 1U);
  EXPECT_EQ(list.devices[0].uuid, kSecond);
  EXPECT_THAT(list.left_out, ElementsAre(HasSubstr("GPU 0 is not shared: GPU-00000000-0000-0000-"
                                                   "0000-000000000001: MIG mode is on")));
}

TEST_F(NvmlTest, OneBrokenCardDoesNotHideTheOthers) {
  fake_->cards[0].broken = abi::kGpuIsLost;
  const DeviceList list = OpenNvml(KRUX_FAKE_NVML).value()->ListDevices().value();
  ASSERT_EQ(list.devices.size(), 1U);
  EXPECT_THAT(list.left_out, ElementsAre(HasSubstr("GPU is lost")));
}

TEST_F(NvmlTest, RefusesACardWhoseUuidIsNone) {
  fake_->cards[0].uuid = "MIG-GPU-nonsense";
  EXPECT_EQ(OpenNvml(KRUX_FAKE_NVML).value()->ListDevices()->devices.size(), 1U);
}

TEST_F(NvmlTest, SumsMemoryByProcessAndGrowsItsBuffer) {
  for (unsigned pid = 1; pid <= 200; ++pid) {
    fake_->cards[0].processes.push_back({pid, 10 * pid, 0, 0});
  }
  fake_->cards[0].processes.push_back({7, 5, 0, 0});
  fake_->cards[0].processes.push_back({999, abi::kValueNotAvailable, 0, 0});
  const auto bytes = OpenNvml(KRUX_FAKE_NVML).value()->ProcessMemory(kFirst).value();
  EXPECT_EQ(bytes.size(), 200U);
  EXPECT_EQ(bytes.at(7), 75U);
  EXPECT_EQ(bytes.count(999), 0U);
}

TEST_F(NvmlTest, HealthTellsWhatIsWrong) {
  const auto nvml = OpenNvml(KRUX_FAKE_NVML).value();
  EXPECT_TRUE(nvml->CheckHealth(kFirst));
  fake_->cards[0].broken = abi::kGpuIsLost;
  EXPECT_EQ(nvml->CheckHealth(kFirst).error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(nvml->CheckHealth(kFirst).error().message, HasSubstr("GPU is lost"));
  EXPECT_TRUE(nvml->CheckHealth(kSecond));
  fake_->cards[1].rows_pending = 1;
  EXPECT_THAT(nvml->CheckHealth(kSecond).error().message, HasSubstr("needs a reset"));
  fake_->cards[1].rows_failed = 1;
  EXPECT_THAT(nvml->CheckHealth(kSecond).error().message, HasSubstr("needs repair"));
  fake_->cards[1] = FakeCard{};
  fake_->cards[1].uuid = kSecond;
  fake_->cards[1].mig = 1;
  EXPECT_THAT(nvml->CheckHealth(kSecond).error().message, HasSubstr("MIG mode is on"));
  EXPECT_EQ(nvml->CheckHealth("GPU-other").error().code, ErrorCode::kNotFound);
}

TEST_F(NvmlTest, HandsOutXidsOnce) {
  const auto nvml = OpenNvml(KRUX_FAKE_NVML).value();
  EXPECT_TRUE(nvml->TakeXids().empty());
  fake_->xids = {{1, 79}, {0, 31}};
  EXPECT_THAT(nvml->TakeXids(), ElementsAre(Xid{kSecond, 79}, Xid{kFirst, 31}));
  EXPECT_TRUE(nvml->TakeXids().empty());
}

TEST(XidTest, FaultsOfApplicationsAreNotTheCards) {
  for (const unsigned xid : {13, 31, 43, 45, 68, 109}) EXPECT_FALSE(IsCardFault(xid)) << xid;
  for (const unsigned xid : {48, 63, 74, 79, 94, 95, 119}) EXPECT_TRUE(IsCardFault(xid)) << xid;
}

TEST_F(NvmlTest, ClosesWhatItOpened) {
  {
    const auto nvml = OpenNvml(KRUX_FAKE_NVML).value();
  }
  EXPECT_EQ(fake_->open, 0);
}

TEST_F(NvmlTest, SaysWhyItCanNotStart) {
  EXPECT_EQ(OpenNvml("/nowhere/libnvidia-ml.so.1").error().code, ErrorCode::kNotFound);
  fake_->init = abi::kDriverNotLoaded;
  EXPECT_EQ(OpenNvml(KRUX_FAKE_NVML).error().code, ErrorCode::kUnavailable);
  const Error error = OpenNvml("libdl.so.2").error();
  EXPECT_EQ(error.code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(error.message, HasSubstr("lacks nvmlInit_v2"));
}

}  // namespace
}  // namespace krux::gpu
