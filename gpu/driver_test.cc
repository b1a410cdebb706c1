#include "gpu/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstdlib>

#include <filesystem>
#include <fstream>

namespace krux::gpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class OneCard final : public Nvml {
 public:
  explicit OneCard(size_t count) : count_(count) {}
  Result<std::string> DriverVersion() const override { return std::string("580.1"); }
  Result<DeviceList> ListDevices() const override {
    return DeviceList{std::vector<Device>(count_), {}};
  }
  Result<MemoryInfo> Memory(const std::string&) const override { return MemoryInfo{}; }
  Result<std::map<pid_t, uint64_t>> ProcessMemory(const std::string&) const override {
    return std::map<pid_t, uint64_t>{};
  }
  Status CheckHealth(const std::string&) const override { return Ok(); }

 private:
  size_t count_;
};

class DriverTest : public testing::Test {
 protected:
  DriverTest() {
    char pattern[] = "/tmp/krux-driver-test.XXXXXX";
    EXPECT_NE(mkdtemp(pattern), nullptr);
    root_ = pattern;
    options_.root = root_;
  }
  ~DriverTest() override { std::filesystem::remove_all(root_); }

  void File(const std::string& path) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << "x";
  }
  void Link(const std::string& target, const std::string& path) {
    std::filesystem::create_symlink(target, root_ + path);
  }
  void InstallNvidia(const std::string& folder) {
    File("/dev/nvidiactl");
    File("/dev/nvidia-uvm");
    for (const char* name :
         {"libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so", "libnvidia-nvvm.so",
          "libnvidia-gpucomp.so", "libnvidia-encode.so", "libcudart.so"}) {
      File(folder + "/" + name + ".580.1");
    }
    Link("libcuda.so.580.1", folder + "/libcuda.so.1");
    Link("libnvidia-ml.so.580.1", folder + "/libnvidia-ml.so.1");
    Link("libnvidia-ptxjitcompiler.so.580.1", folder + "/libnvidia-ptxjitcompiler.so.1");
    Link("libnvidia-nvvm.so.580.1", folder + "/libnvidia-nvvm.so.4");
  }
  void InstallSim() {
    File("/opt/sim/libcuda.so.1");
    File("/opt/sim/libnvidia-ml.so.1");
    options_.sim_libraries = "/opt/sim";
  }
  static NvmlOpener Cards(size_t count) {
    return [count](const std::string&) -> Result<std::unique_ptr<Nvml>> {
      return std::unique_ptr<Nvml>(std::make_unique<OneCard>(count));
    };
  }
  static Result<std::unique_ptr<Nvml>> NoNvml(const std::string&) {
    return Error{ErrorCode::kUnavailable, "driver not loaded"};
  }

  std::string root_;
  DriverOptions options_;
};

TEST_F(DriverTest, FindsTheVendorsDriverAndOnlyWhatCudaNeeds) {
  InstallNvidia("/usr/lib64");
  const Driver driver = ResolveDriver(options_, Cards(1)).value();
  EXPECT_EQ(driver.kind, DriverKind::kNvidia);
  EXPECT_EQ(driver.nvml_library, root_ + "/usr/lib64/libnvidia-ml.so.1");
  EXPECT_THAT(driver.files,
              ElementsAre("/usr/lib64/libcuda.so.1", "/usr/lib64/libnvidia-gpucomp.so.580.1",
                          "/usr/lib64/libnvidia-ml.so.1", "/usr/lib64/libnvidia-nvvm.so.4",
                          "/usr/lib64/libnvidia-ptxjitcompiler.so.1"));
  Device device;
  device.minor = 3;
  EXPECT_THAT(driver.NodesOf(device),
              ElementsAre("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3"));
}

TEST_F(DriverTest, AFolderWithACudaLibraryAloneIsNoDriver) {
  InstallNvidia("/usr/lib64");
  File("/usr/lib/x86_64-linux-gnu/libcuda.so.1");  // a stub or a compatibility package
  EXPECT_EQ(ResolveDriver(options_, Cards(1))->library_folders,
            std::vector<std::string>{"/usr/lib64"});
}

TEST_F(DriverTest, AutoPrefersTheRealCard) {
  InstallNvidia("/usr/lib64");
  InstallSim();
  EXPECT_EQ(ResolveDriver(options_, Cards(1))->kind, DriverKind::kNvidia);
  EXPECT_EQ(ResolveDriver(options_, Cards(0))->kind, DriverKind::kSim);
  EXPECT_EQ(ResolveDriver(options_, NoNvml)->kind, DriverKind::kSim);
}

TEST_F(DriverTest, AutoWithoutAnythingIsNoneWithTheReason) {
  const Driver driver = ResolveDriver(options_, Cards(1)).value();
  EXPECT_EQ(driver.kind, DriverKind::kNone);
  EXPECT_THAT(driver.reason, HasSubstr("/dev/nvidiactl does not exist"));
  EXPECT_EQ(OpenDriver(driver).error().code, ErrorCode::kNotFound);
}

TEST_F(DriverTest, AnExplicitChoiceIsNeverReplaced) {
  InstallSim();
  options_.mode = DriverMode::kNvidia;
  EXPECT_THAT(ResolveDriver(options_, Cards(1)).error().message, HasSubstr("/dev/nvidiactl"));
  InstallNvidia("/usr/lib64");
  options_.mode = DriverMode::kSim;
  EXPECT_EQ(ResolveDriver(options_, Cards(1))->kind, DriverKind::kSim);
  options_.sim_libraries.clear();
  EXPECT_THAT(ResolveDriver(options_, Cards(1)).error().message, HasSubstr("--sim-libraries"));
  options_.mode = DriverMode::kNone;
  EXPECT_EQ(ResolveDriver(options_, Cards(1))->kind, DriverKind::kNone);
}

TEST_F(DriverTest, TheSimulatedCardIsAFileAndNoDevice) {
  InstallSim();
  options_.sim_folder = "/tmp/state";
  const Driver driver = ResolveDriver(options_, Cards(1)).value();
  EXPECT_THAT(driver.files, ElementsAre("/opt/sim/libcuda.so.1", "/opt/sim/libnvidia-ml.so.1"));
  Device second;
  second.minor = 1;
  EXPECT_THAT(driver.MountsOf(second),
              ElementsAre(api::Mount{"/tmp/state/state", "/run/krux-sim/state", false},
                          api::Mount{"/tmp/state/card1", "/run/krux-sim/card1", false}));
  EXPECT_TRUE(driver.NodesOf(second).empty());
  ASSERT_TRUE(OpenDriver(driver, Cards(1)));
  EXPECT_STREQ(getenv("KRUX_SIM_FOLDER"), "/tmp/state");
}

TEST_F(DriverTest, UnknownWordsAreRefusedWithTheList) {
  EXPECT_EQ(ParseDriverMode("sim").value(), DriverMode::kSim);
  EXPECT_THAT(ParseDriverMode("amd").error().message, HasSubstr("auto, nvidia, sim, none"));
}

}  // namespace
}  // namespace krux::gpu
