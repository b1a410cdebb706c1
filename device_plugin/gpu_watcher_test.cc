#include "device_plugin/gpu_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstdlib>

#include <filesystem>
#include <fstream>
#include <future>
#include <utility>

namespace krux::device_plugin {
namespace {

struct FakeDriver {
  bool loaded = true;
  int opened = 0;
  std::vector<gpu::Device> cards = {{"a", "H200", 100ULL << 20, 0, ""}};
  std::map<std::string, Error> sick;
  std::vector<gpu::Xid> xids;
  std::shared_future<void> hangs;  // calls return when it is ready
};

class FakeNvml final : public gpu::Nvml {
 public:
  explicit FakeNvml(FakeDriver& driver) : driver_(driver) {}
  Result<std::string> DriverVersion() const override { return std::string("1"); }
  Result<gpu::DeviceList> ListDevices() const override {
    if (driver_.hangs.valid()) driver_.hangs.wait();
    if (!driver_.loaded) return Error{ErrorCode::kUnavailable, "driver not loaded"};
    return gpu::DeviceList{driver_.cards, {}};
  }
  Result<gpu::MemoryInfo> Memory(const std::string&) const override { return gpu::MemoryInfo{}; }
  Result<std::map<pid_t, uint64_t>> ProcessMemory(const std::string&) const override {
    return std::map<pid_t, uint64_t>{};
  }
  Status CheckHealth(const std::string& uuid) const override {
    const auto sick = driver_.sick.find(uuid);
    if (sick != driver_.sick.end()) return sick->second;
    return Ok();
  }
  std::vector<gpu::Xid> TakeXids() override { return std::exchange(driver_.xids, {}); }

 private:
  FakeDriver& driver_;
};

class GpuWatcherTest : public testing::Test {
 protected:
  GpuWatcherTest() {
    char pattern[] = "/tmp/krux-watcher-test.XXXXXX";
    EXPECT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
    for (const char* name : {"/libcuda.so.1", "/libnvidia-ml.so.1"}) {
      std::ofstream(folder_ + name) << "x";
    }
    GpuWatcher::Options options;
    options.probe.driver.mode = gpu::DriverMode::kSim;
    options.probe.driver.sim_libraries = folder_;
    options.probe.open = [this](const std::string&) -> Result<std::unique_ptr<gpu::Nvml>> {
      ++driver_.opened;
      if (!driver_.loaded) return Error{ErrorCode::kUnavailable, "driver not loaded"};
      return std::unique_ptr<gpu::Nvml>(std::make_unique<FakeNvml>(driver_));
    };
    options.quiet = 10 * kSecond;
    options.probe.reopen = 5 * kSecond;
    Watch(options);
  }
  void Watch(const GpuWatcher::Options& options) {
    options_ = options;
    watcher_ = std::make_unique<GpuWatcher>(
        options, [this](const Inventory& inventory, gpu::DriverKind kind) {
          kind_ = kind;
          ++changes_;
          seen_ = inventory;
        });
  }
  ~GpuWatcherTest() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  GpuWatcher::Options options_;
  FakeDriver driver_;
  Inventory seen_;
  int changes_ = 0;
  gpu::DriverKind kind_ = gpu::DriverKind::kNone;
  std::unique_ptr<GpuWatcher> watcher_;
};

TEST_F(GpuWatcherTest, TellsOfTheCardsOnce) {
  for (int second = 0; second < 20; ++second) watcher_->Poll(second * kSecond);
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(driver_.opened, 1);
  EXPECT_EQ(kind_, gpu::DriverKind::kSim);
  ASSERT_EQ(seen_.gpus.size(), 1U);
  EXPECT_EQ(seen_.gpus[0], (Gpu{"a", "H200", 100, true, ""}));
}

TEST_F(GpuWatcherTest, KeepsLookingForADriverThatIsMissingAtStart) {
  driver_.loaded = false;
  for (int second = 0; second < 10; ++second) watcher_->Poll(second * kSecond);
  EXPECT_EQ(changes_, 0);
  EXPECT_EQ(driver_.opened, 2);
  driver_.loaded = true;
  watcher_->Poll(10 * kSecond);
  EXPECT_EQ(changes_, 1);
}

TEST_F(GpuWatcherTest, ALostCardIsToldAtOnceAndTrustedAfterTheQuietTime) {
  watcher_->Poll(0);
  driver_.sick["a"] = Error{ErrorCode::kFailedPrecondition, "GPU is lost"};
  driver_.cards.clear();
  watcher_->Poll(kSecond);
  ASSERT_EQ(changes_, 2);
  EXPECT_EQ(seen_.gpus[0].reason, "GPU is lost");
  driver_.sick.clear();
  driver_.cards = {{"a", "H200", 100ULL << 20, 0, ""}};
  for (int second = 2; second <= 10; ++second) watcher_->Poll(second * kSecond);
  EXPECT_EQ(changes_, 2);
  watcher_->Poll(11 * kSecond);
  EXPECT_EQ(changes_, 3);
  EXPECT_TRUE(seen_.gpus[0].healthy);
}

TEST_F(GpuWatcherTest, AnXidOfTheCardIsAFaultForTheQuietTime) {
  watcher_->Poll(0);
  driver_.xids = {{"a", 31}};
  watcher_->Poll(kSecond);
  EXPECT_EQ(changes_, 1);
  driver_.xids = {{"a", 94}};
  watcher_->Poll(2 * kSecond);
  ASSERT_EQ(changes_, 2);
  EXPECT_EQ(seen_.gpus[0].reason, "the driver reported XID 94");
  watcher_->Poll(11 * kSecond);
  EXPECT_FALSE(seen_.gpus[0].healthy);
  watcher_->Poll(12 * kSecond);
  EXPECT_TRUE(seen_.gpus[0].healthy);
}

TEST_F(GpuWatcherTest, OpensNvmlAnewWhileACardIsInTrouble) {
  watcher_->Poll(0);
  driver_.sick["a"] = Error{ErrorCode::kFailedPrecondition, "GPU is lost"};
  for (int second = 1; second <= 12; ++second) watcher_->Poll(second * kSecond);
  EXPECT_EQ(driver_.opened, 3);  // at 0, then at 5 and 10
}

TEST_F(GpuWatcherTest, LivesThroughAReloadOfTheDriver) {
  watcher_->Poll(0);
  driver_.loaded = false;
  watcher_->Poll(kSecond);
  EXPECT_EQ(seen_.gpus[0].reason, "driver not loaded");
  watcher_->Poll(6 * kSecond);
  driver_.loaded = true;
  for (int second = 7; second <= 22; ++second) watcher_->Poll(second * kSecond);
  EXPECT_TRUE(seen_.gpus[0].healthy);
}

TEST_F(GpuWatcherTest, TellsOfTheLastRunsCardsBeforeItLooks) {
  options_.known = {{{"a", "H200", 100, true, ""}}, true};
  Watch(options_);
  watcher_->Start(0);
  EXPECT_EQ(driver_.opened, 0);
  ASSERT_EQ(changes_, 1);
  EXPECT_TRUE(seen_.expected);
  watcher_->Poll(kSecond);
  ASSERT_EQ(changes_, 2);
  EXPECT_TRUE(seen_.gpus[0].healthy);
}

TEST_F(GpuWatcherTest, ADriverThatHangsIsAFaultOfAllCards) {
  options_.patience = 50 * kMillisecond;
  Watch(options_);
  int second = 0;
  const auto poll_until = [&](const std::function<bool()>& done) {
    while (!done() && second < 600) watcher_->Poll(second++ * kSecond);
    return done();
  };
  ASSERT_TRUE(poll_until([&] { return seen_.gpus.size() == 1 && seen_.gpus[0].healthy; }));
  std::promise<void> answer;
  driver_.hangs = answer.get_future().share();
  watcher_->Poll(second++ * kSecond);
  EXPECT_THAT(seen_.gpus[0].reason, testing::HasSubstr("does not answer"));
  watcher_->Poll(second++ * kSecond);  // the same look still
  answer.set_value();
  EXPECT_TRUE(poll_until([&] { return seen_.gpus[0].healthy; }));
}

}  // namespace
}  // namespace krux::device_plugin
