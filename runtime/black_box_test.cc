// krux-runtime as containerd calls it, with a runtime behind it that only writes down how it was
// called and which spec it found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "runtime/testing/fake_agent.h"
#include "runtime/testing/fake_elf.h"
#include "runtime/testing/node.h"

namespace krux::runtime {
namespace {

using testing::FakeAgent;
using testing::FakeElf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Node;
using ::testing::Not;
using testing::Outcome;
using testing::Slurp;

constexpr char kPodAnnotations[] = R"({"io.kubernetes.cri.container-type":"container",
  "io.kubernetes.cri.container-name":"main","io.kubernetes.cri.sandbox-uid":"uid-1",
  "io.kubernetes.cri.sandbox-namespace":"ns","io.kubernetes.cri.sandbox-name":"pod"})";

class BlackBoxTest : public ::testing::Test {
 protected:
  BlackBoxTest() : node_(KRUX_RUNTIME_BINARY, stub_.File("runc", "")) {
    stub_.Program("runc", "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + (stub_ / "words") + "\ncp " +
                              node_.bundle() + "/config.json " + (stub_ / "spec") +
                              " 2>/dev/null\nexit $(cat " + (stub_ / "exit") + ")\n");
    stub_.File("exit", "0");
    node_.folder().File("bundle/rootfs/lib64/libc.so.6", FakeElf({"GLIBC_2.31"}));
    answer_.granted = true;
    answer_.device_nodes = {"/dev/null"};
    answer_.driver_files = {node_.folder().File("libcuda.so.1", FakeElf({"X"}))};
    answer_.mounts = {{node_.folder().Folder("run/containers/c1"), "/run/krux", true}};
    answer_.limiter_path = node_.folder().File("libkrux.so", FakeElf({"X"}));
  }

  void StartAgent() { agent_.emplace(node_.agent_socket(), api::AnswerToJson(answer_)); }
  static std::string PodSpec(const std::string& rest = "") {
    return R"({"ociVersion":"1.1.0","process":{"env":["A=b","NVIDIA_VISIBLE_DEVICES=all"]},)"
           R"("root":{"path":"rootfs"},"linux":{"cgroupsPath":"/kubepods/x"},"annotations":)" +
           std::string(kPodAnnotations) + rest + "}";
  }
  // What the real runtime was called with; empty when it was not.
  std::string Words() { return Slurp(stub_ / "words"); }
  std::string SeenSpec() { return Slurp(stub_ / "spec"); }
  void ExpectRefused(const Outcome& outcome, const std::string& spec, const std::string& said) {
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("krux: "));
    EXPECT_THAT(outcome.err, HasSubstr(said));
    EXPECT_THAT(Words(), IsEmpty()) << "the real runtime was called";
    EXPECT_EQ(node_.ReadSpec(), spec) << "the spec was changed";
    // containerd shows the message of the last line of this log.
    const std::string log = node_.ReadLog();
    const auto last = nlohmann::json::parse(log.substr(log.rfind('\n', log.size() - 2) + 1));
    EXPECT_EQ(last["level"], "error");
    EXPECT_THAT(last["msg"].get<std::string>(), HasSubstr(said));
    EXPECT_TRUE(last.contains("time"));
  }

  testing::TempFolder stub_;
  Node node_;
  api::CreateAnswer answer_;
  std::optional<FakeAgent> agent_;
};

TEST_F(BlackBoxTest, OtherVerbsPassThroughWithEveryArgument) {
  stub_.File("exit", "42");
  EXPECT_EQ(node_.Call({"exec", "--process", "/p", "c1", "", "a b"}).exit_code, 42);
  EXPECT_EQ(Words(), "--root\n" + (node_.folder() / "state") + "\n--log\n" +
                         (node_.folder() / "log.json") +
                         "\n--log-format\njson\nexec\n--process\n/p\nc1\n\na b\n");
  EXPECT_EQ(node_.Call({"kill", "--all", "c1", "9"}).exit_code, 42);
  EXPECT_THAT(Words(), HasSubstr("kill\n--all\nc1\n9\n"));
  EXPECT_EQ(node_.Call({"--version"}).exit_code, 42);
}

TEST_F(BlackBoxTest, SandboxesAreUntouchedByteForByteWithoutAnAgent) {
  const std::string spec =
      "{ \"annotations\" : {\"io.kubernetes.cri.container-type\":\"sandbox\"},\n"
      "\"process\":{\"env\":[\"NVIDIA_VISIBLE_DEVICES=all\"]}, \"x\": 1.50 }\n";
  node_.WriteSpec(spec);
  EXPECT_EQ(node_.Create("c1").exit_code, 0);
  EXPECT_EQ(SeenSpec(), spec);
  EXPECT_THAT(Words(), HasSubstr("create\n--bundle\n" + node_.bundle() + "\n--pid-file\n"));
}

TEST_F(BlackBoxTest, AGrantIsAskedForByIdentityAndApplied) {
  StartAgent();
  node_.WriteSpec(PodSpec());
  const Outcome outcome = node_.Create("c1");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  ASSERT_EQ(agent_->requests().size(), 1u);
  EXPECT_EQ(agent_->requests()[0],
            api::Request(api::CreateRequest{"c1", "uid-1", "ns", "pod", "main", "/kubepods/x"}));
  const Json spec = ParseSpec(SeenSpec()).value();
  EXPECT_EQ(SpecToText(spec["process"]["env"]), R"(["A=b","NVIDIA_VISIBLE_DEVICES=void"])");
  EXPECT_EQ(spec["linux"]["devices"][0]["path"], "/dev/null");
  EXPECT_THAT(SeenSpec(), HasSubstr("/lib64/libcuda.so.1"));
  EXPECT_THAT(SeenSpec(), HasSubstr(R"("destination":"/etc/ld.so.preload")"));
  EXPECT_EQ(Slurp(node_.bundle() + "/krux-ld.so.preload"), "/usr/lib/krux/libkrux.so\n");
}

TEST_F(BlackBoxTest, RunIsHandledAsCreateAndTheBundleIsTheWorkingFolderByDefault) {
  StartAgent();
  node_.WriteSpec(PodSpec());
  EXPECT_EQ(node_.Call({"run", "-d", "-b", "../bundle", "c1"}).exit_code, 0);
  EXPECT_THAT(SeenSpec(), HasSubstr("/usr/lib/krux/libkrux.so"));
  node_.folder().File("tmp/config.json", "{}");
  EXPECT_EQ(node_.Call({"create", "c2"}).exit_code, 0);
  EXPECT_EQ(agent_->requests().size(), 1u);  // the second one has no pod
}

TEST_F(BlackBoxTest, WithoutAGrantNothingIsAddedAndTheVariableIsGone) {
  answer_ = {};
  answer_.reason = "asks for no GPU";
  StartAgent();
  node_.WriteSpec(PodSpec());
  ASSERT_EQ(node_.Create("c1").exit_code, 0);
  Json expected = ParseSpec(PodSpec()).value();
  expected["process"]["env"] = {"A=b"};
  EXPECT_EQ(SeenSpec(), SpecToText(expected));
  EXPECT_THAT(node_.ReadLog(), HasSubstr("asks for no GPU"));
  EXPECT_THAT(node_.ReadLog(), Not(HasSubstr("\"error\"")));
}

TEST_F(BlackBoxTest, AContainerOfNoPodGetsNoGpuAndNeedsNoAgent) {
  node_.WriteSpec(R"({"process":{"env":["NVIDIA_VISIBLE_DEVICES=all","A=b"]},"linux":{"devices":)"
                  R"([{"path":"/dev/nvidia0","type":"c","major":195,"minor":0}]}})");
  ASSERT_EQ(node_.Create("c1").exit_code, 0);
  EXPECT_EQ(SeenSpec(), R"({"process":{"env":["A=b"]},"linux":{"devices":[]}})");
}

TEST_F(BlackBoxTest, WithoutItsAgentAContainerOfAPodIsNotStarted) {
  node_.WriteSpec(PodSpec());
  ExpectRefused(node_.Create("c1"), PodSpec(), "krux: UNAVAILABLE: container main of pod ns/pod");
}

TEST_F(BlackBoxTest, TheAgentsErrorIsToldAsItIs) {
  agent_.emplace(node_.agent_socket(),
                 api::ErrorToJson({ErrorCode::kResourceExhausted, "1200 MiB short on GPU-x"}));
  node_.WriteSpec(PodSpec());
  ExpectRefused(node_.Create("c1"), PodSpec(), "1200 MiB short on GPU-x");
}

TEST_F(BlackBoxTest, AGrantThatCannotBeAppliedIsGivenBackAndNothingChanges) {
  std::filesystem::remove_all(node_.bundle() + "/rootfs/lib64");
  node_.folder().File("bundle/rootfs/lib/ld-musl-x86_64.so.1", FakeElf({}));
  StartAgent();
  node_.WriteSpec(PodSpec());
  ExpectRefused(node_.Create("c1"), PodSpec(), "musl");
  ASSERT_EQ(agent_->requests().size(), 2u);
  EXPECT_EQ(agent_->requests()[1], api::Request(api::DeleteRequest{"c1"}));
}

TEST_F(BlackBoxTest, HostileImagesLeaveTheHostAlone) {
  const std::string canary = node_.folder().File("canary", "untouched");
  node_.folder().Link(canary, "bundle/rootfs/etc/ld.so.preload");
  StartAgent();
  node_.WriteSpec(PodSpec());
  ExpectRefused(node_.Create("c1"), PodSpec(), "/etc/ld.so.preload");
  std::filesystem::remove_all(node_.bundle() + "/rootfs/etc");
  node_.folder().Link(node_.folder().path(), "bundle/rootfs/run");
  ExpectRefused(node_.Create("c1"), PodSpec(), "/run/krux");
  EXPECT_EQ(Slurp(canary), "untouched");
  EXPECT_FALSE(std::filesystem::exists(node_.folder() / "krux"));
}

TEST_F(BlackBoxTest, WrongInputGetsOneSentenceAndChangesNothing) {
  StartAgent();
  struct Row {
    std::string spec;
    const char* said;
  };
  const Row rows[] = {
      {"", "not a JSON object"},
      {"{\"a\":", "not a JSON object"},
      {"{\"a\":" + std::string(100000, '[') + "}", "deeper"},
      {R"({"annotations":7})", "annotations"},
      {R"({"process":[]})", "process"},
      {R"({"annotations":{"io.kubernetes.cri.container-type":"container"}})", "sandbox-uid"},
      {PodSpec(R"(,"mounts":{})"), "mounts"},
      {PodSpec(R"(,"root":{"path":"nowhere"})"), "nowhere"},
  };
  for (const Row& row : rows) {
    node_.WriteSpec(row.spec);
    ExpectRefused(node_.Create("c1"), row.spec, row.said);
  }
  ExpectRefused(node_.Call({"create", "--bundle", "/nonexistent", "c1"}), rows[7].spec,
                "/nonexistent");
  ExpectRefused(node_.Call({"create", "--bundle", node_.bundle(), "../c1"}), rows[7].spec,
                "container id");
}

TEST_F(BlackBoxTest, WrongConfigurationIsNamed) {
  node_.WriteSpec("{}");
  node_.Configure(Json{{"agentSockets", "/x"}});
  ExpectRefused(node_.Create("c1"), "{}", "agentSockets");
  node_.Configure(Json{{"runtime", stub_ / "nothing"}});
  ExpectRefused(node_.Create("c1"), "{}", "not installed");
  node_.Configure(Json{{"runtime", node_.folder() / "krux-runtime"}});
  ExpectRefused(node_.Create("c1"), "{}", "itself");
}

TEST_F(BlackBoxTest, ARuntimeThatCannotBeStartedLeavesTheSpecAsItWas) {
  stub_.Program("runc", "#!/nonexistent/interpreter\n");
  StartAgent();
  node_.WriteSpec(PodSpec());
  ExpectRefused(node_.Create("c1"), PodSpec(), "starting");
  EXPECT_EQ(agent_->requests().back(), api::Request(api::DeleteRequest{"c1"}));
}

TEST_F(BlackBoxTest, DeleteTellsTheAgentAfterTheRealRuntimeSucceeded) {
  StartAgent();
  stub_.File("exit", "3");
  EXPECT_EQ(node_.Call({"delete", "--force", "c1"}).exit_code, 3);
  EXPECT_THAT(agent_->requests(), IsEmpty());  // it may still run
  stub_.File("exit", "0");
  EXPECT_EQ(node_.Call({"delete", "--force", "c1"}).exit_code, 0);
  EXPECT_THAT(Words(), HasSubstr("delete\n--force\nc1\n"));
  ASSERT_EQ(agent_->requests().size(), 1u);
  EXPECT_EQ(agent_->requests()[0], api::Request(api::DeleteRequest{"c1"}));
  EXPECT_EQ(node_.Call({"delete", "unknown"}).exit_code, 0);  // the agent has no folder for it
  EXPECT_EQ(agent_->requests().size(), 1u);
}

TEST_F(BlackBoxTest, DeleteWorksWithoutTheAgent) {
  EXPECT_EQ(node_.Call({"delete", "c1"}).exit_code, 0);
  EXPECT_THAT(node_.ReadLog(), HasSubstr("is deleted"));
}

}  // namespace
}  // namespace krux::runtime
