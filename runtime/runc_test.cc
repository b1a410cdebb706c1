// krux-runtime with the real runc behind it: what a program sees in its container. The image is
// this machine's own glibc and one small program. Needs root and a runc that can run containers
// here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <sstream>

#include "runtime/image_libc.h"
#include "runtime/real_runtime.h"
#include "runtime/testing/fake_agent.h"
#include "runtime/testing/node.h"

namespace krux::runtime {
namespace {

using testing::FakeAgent;
using ::testing::HasSubstr;
using testing::Node;
using testing::Outcome;
using testing::Slurp;

constexpr char kPodAnnotations[] = R"({"io.kubernetes.cri.container-type":"container",
  "io.kubernetes.cri.container-name":"main","io.kubernetes.cri.sandbox-uid":"uid-1",
  "io.kubernetes.cri.sandbox-namespace":"ns","io.kubernetes.cri.sandbox-name":"pod"})";

// A device that no container gets by default.
std::string SpareDevice() {
  for (const char* path : {"/dev/fuse", "/dev/loop-control", "/dev/kmsg"}) {
    struct stat about{};
    if (stat(path, &about) == 0 && S_ISCHR(about.st_mode)) return path;
  }
  return "";
}

class RuncTest : public ::testing::Test {
 protected:
  RuncTest() : node_(KRUX_RUNTIME_BINARY, "runc") {}

  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "containers need root";
    const auto runc = RealRuntime::Find("runc", getenv("PATH") ? getenv("PATH") : "");
    if (!runc) GTEST_SKIP() << "runc is not installed";
    ASSERT_NO_FATAL_FAILURE(FillImage());
    WriteSpec({});
    const Outcome plain = testing::RunProgram(
        {runc->path(), "--root", node_.folder() / "state", "run", "-b", node_.bundle(), Id()},
        node_.folder() / "tmp");
    if (plain.exit_code != 0) GTEST_SKIP() << "runc can't run containers here: " << plain.err;
    ASSERT_THAT(plain.out, HasSubstr("driver=missing"));
  }

  // glibc with its folders and links as they are on this machine, and the probe.
  void FillImage() {
    namespace fs = std::filesystem;
    const auto folder = FindLibraryFolder(ImageRoot::Open("/").value());
    ASSERT_TRUE(folder) << folder.error().message;
    for (const char* link : {"lib", "lib64"}) {
      if (fs::is_symlink("/" + std::string(link))) {
        node_.folder().Link(fs::read_symlink("/" + std::string(link)), Rootfs(link));
      }
    }
    const fs::path loader = fs::canonical("/lib64/ld-linux-x86-64.so.2");
    for (const char* target : {"usr/lib", "usr/lib64"}) node_.folder().Folder(Rootfs(target));
    node_.folder().Folder(Rootfs(folder->substr(1)));
    fs::copy_file(*folder + "/libc.so.6", Host(*folder + "/libc.so.6"));
    fs::copy_file(loader, Host("/lib64/ld-linux-x86-64.so.2"));
    fs::copy_file(KRUX_RUNTIME_PROBE, Host("/probe"));
    node_.folder().File("container/limits", "limits of this container");
    node_.folder().Folder("sim");
  }
  static std::string Rootfs(const std::string& path) { return "bundle/rootfs/" + path; }
  std::string Host(const std::string& path) const { return node_.bundle() + "/rootfs" + path; }
  std::string Id() const { return "krux-test-" + std::to_string(getpid()); }

  void WriteSpec(const Json& changes) {
    Json spec = Json::parse(R"({"ociVersion":"1.0.2","root":{"path":"rootfs","readonly":false},
      "process":{"user":{"uid":0,"gid":0},"cwd":"/","args":["/probe"],
                 "env":["PATH=/","NVIDIA_VISIBLE_DEVICES=all"]},
      "mounts":[{"destination":"/proc","type":"proc","source":"proc"},
                {"destination":"/dev","type":"tmpfs","source":"tmpfs","options":["nosuid","mode=755"]}],
      "linux":{"namespaces":[{"type":"pid"},{"type":"mount"},{"type":"ipc"},{"type":"uts"},
                             {"type":"network"}],
               "resources":{"devices":[{"allow":false,"access":"rwm"}]}}})");
    spec["process"]["args"].push_back(SpareDevice().empty() ? "/dev/none" : SpareDevice());
    spec["linux"]["cgroupsPath"] = "/" + Id();
    spec["annotations"] = Json::parse(kPodAnnotations);
    if (!changes.is_null()) spec.merge_patch(changes);
    node_.WriteSpec(SpecToText(spec));
  }
  void Grant() {
    api::CreateAnswer answer;
    answer.granted = true;
    if (!SpareDevice().empty()) answer.device_nodes = {SpareDevice()};
    answer.driver_files = {node_.folder() / "libcuda.so.1"};
    std::filesystem::copy_file(KRUX_RUNTIME_FAKE_DRIVER, answer.driver_files[0]);
    answer.limiter_path = KRUX_RUNTIME_FAKE_LIMITER;
    answer.mounts = {{node_.folder() / "container", "/run/krux", true},
                     {node_.folder() / "sim", "/run/krux-sim", false}};
    agent_.emplace(node_.agent_socket(), api::AnswerToJson(answer));
  }
  // What the probe says, by fact.
  std::map<std::string, std::string> Run() {
    const Outcome outcome = node_.Call({"run", "--bundle", node_.bundle(), Id()});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err << node_.ReadLog();
    std::map<std::string, std::string> facts;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      facts[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    }
    return facts;
  }
  void ExpectGranted(std::map<std::string, std::string> facts) {
    EXPECT_EQ(facts["visible"], "void");
    EXPECT_EQ(facts["driver"], "ok");
    EXPECT_EQ(facts["limiter"], "ok");
    EXPECT_EQ(facts["limits"], "limits of this container");
    EXPECT_EQ(facts["write_limits"], "Read-only file system");
    EXPECT_EQ(facts["create_in_folder"], "Read-only file system");
    EXPECT_EQ(facts["write_sim"], "ok");
    if (!SpareDevice().empty()) {
      EXPECT_EQ(facts["device"], "ok") << SpareDevice();
    }
  }

  Node node_;
  std::optional<FakeAgent> agent_;
};

TEST_F(RuncTest, AGrantedContainerHasDriverLimiterLimitsAndDevice) {
  Grant();
  auto facts = Run();
  ExpectGranted(facts);
  EXPECT_EQ(facts["preload"], "/usr/lib/krux/libkrux.so|");
}

TEST_F(RuncTest, WorksOnAReadOnlyRootAndWithATmpfsOnRun) {
  WriteSpec(Json::parse(R"({"root":{"readonly":true}})"));
  Json spec = Json::parse(node_.ReadSpec());
  spec["mounts"].push_back({{"destination", "/run"}, {"type", "tmpfs"}, {"source", "tmpfs"}});
  node_.WriteSpec(SpecToText(spec));
  Grant();
  ExpectGranted(Run());
}

TEST_F(RuncTest, TheImagesOwnPreloadAndLoaderVariablesDoNotRemoveTheLimiter) {
  node_.folder().File(Rootfs("etc/ld.so.preload"), "/nothing/own.so\n");
  WriteSpec(Json::parse(R"({"process":{"env":["LD_PRELOAD=","LD_LIBRARY_PATH=/nowhere",
                            "NVIDIA_VISIBLE_DEVICES=all","CUDA_DEVICE_MEMORY_LIMIT=99g"]}})"));
  Grant();
  auto facts = Run();
  ExpectGranted(facts);
  EXPECT_EQ(facts["preload"], "/usr/lib/krux/libkrux.so|/nothing/own.so|");
  EXPECT_EQ(Slurp(Host("/etc/ld.so.preload")), "/nothing/own.so\n");  // the image is as it was
}

TEST_F(RuncTest, WithoutAGrantThereIsNothingToUse) {
  agent_.emplace(node_.agent_socket(), api::AnswerToJson(api::CreateAnswer{}));
  auto facts = Run();
  EXPECT_EQ(facts["visible"], "-");
  EXPECT_EQ(facts["driver"], "missing");
  EXPECT_EQ(facts["limiter"], "missing");
  EXPECT_EQ(facts["limits"], "!No such file or directory");
  EXPECT_NE(facts["device"], "ok");
}

TEST_F(RuncTest, PlantedLinksCreateNothingOnTheHost) {
  const std::string outside = node_.folder().Folder("outside");
  const std::string canary = node_.folder().File("outside/canary", "untouched");
  // Left in the image under the driver's name, leading out of it: followed inside the image only.
  const auto folder = FindLibraryFolder(ImageRoot::Open(Host("")).value());
  node_.folder().Link(outside + "/planted.so", Rootfs(folder->substr(1) + "/libcuda.so.1"));
  Grant();
  ExpectGranted(Run());
  EXPECT_FALSE(std::filesystem::exists(outside + "/planted.so"));
  EXPECT_EQ(Slurp(canary), "untouched");
}

}  // namespace
}  // namespace krux::runtime
