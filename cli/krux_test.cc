// The krux program from outside, with an agent that this test plays: its messages, its exit codes,
// and what a command that it runs gets to see.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/file.h"
#include "common/unix_socket.h"
#include "protocol/agent_api.h"

namespace krux::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kUuid[] = "GPU-01234567-89ab-cdef-0123-456789abcdef";

struct Outcome {
  int code = -1;
  std::string out;
  std::string error;
};

// Answers "status" and "run" on one folder's socket, as krux-agent does.
class FakeAgent {
 public:
  explicit FakeAgent(const std::string& folder) : folder_(folder) {
    auto listener = ListenUnix(folder + "/agent.sock", 0600);
    EXPECT_TRUE(listener);
    listener_ = std::move(*listener);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeAgent() {
    stop_.store(true);
    thread_.join();
  }

  std::vector<GpuGrant> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::string status = std::string(R"({"v":1,"ok":true,"driver":"sim","gpus":[{"uuid":")") + kUuid +
                       R"(","memoryMiB":8192}],"pods":[]})";
  std::string refusal;           // not empty: "run" is answered by it
  std::atomic<int> returned{0};  // containers given back

 private:
  void Serve() {
    std::vector<UniqueFd> held;
    while (!stop_.load()) {
      held.erase(std::remove_if(held.begin(), held.end(),
                                [&](const UniqueFd& fd) { return IsClosed(fd.get()); }),
                 held.end());
      pollfd waiter{listener_.get(), POLLIN, 0};
      if (poll(&waiter, 1, 5) <= 0) continue;
      UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const auto asked = ReceiveMessage(client.get(), 10'000);
      if (!asked || asked->bytes.empty()) continue;
      const auto request = api::ParseRequest(asked->bytes);
      ASSERT_TRUE(request) << asked->bytes;
      if (std::holds_alternative<api::StatusRequest>(*request)) {
        (void)SendMessage(client.get(), status);
        continue;
      }
      Grant(std::get<api::RunRequest>(*request), client.get());
      if (refusal.empty()) held.push_back(std::move(client));
    }
  }

  bool IsClosed(int fd) {
    pollfd waiter{fd, POLLIN, 0};
    if (poll(&waiter, 1, 0) <= 0) return false;
    ++returned;
    return true;
  }

  void Grant(const api::RunRequest& request, int client) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request.gpus.at(0));
    }
    if (!refusal.empty()) {
      (void)SendMessage(client, refusal);
      return;
    }
    api::RunAnswer answer;
    answer.folder = folder_ + "/containers/run-1";
    answer.gpus = request.gpus;
    if (answer.gpus[0].uuid.empty()) answer.gpus[0].uuid = kUuid;
    answer.limiter_path = folder_ + "/nothing.so";
    (void)SendMessage(client, api::AnswerToJson(answer));
  }

  std::string folder_;
  UniqueFd listener_;
  std::mutex mutex_;
  std::vector<GpuGrant> requests_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class KruxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/krux-cli-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    ASSERT_EQ(mkdir((folder_ + "/run").c_str(), 0700), 0);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string run_folder() const { return folder_ + "/run"; }

  // Starts the program; `Finish` waits for it.
  pid_t Start(std::vector<std::string> words, const std::string& program = KRUX_PROGRAM) {
    words.insert(words.begin(), program);
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string out = folder_ + "/out";
    const std::string error = folder_ + "/error";
    const pid_t pid = fork();
    if (pid != 0) return pid;
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    dup2(open(error.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    unsetenv("KRUX_CONTAINER_FOLDER");
    execv(arguments[0], arguments.data());
    _exit(99);
  }

  Outcome Finish(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    Outcome outcome;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    outcome.out = *ReadFile(folder_ + "/out", 1 << 20);
    outcome.error = *ReadFile(folder_ + "/error", 1 << 20);
    // The loader says that the fake limiter is not there; that is not krux's message.
    const auto noise = outcome.error.find("ERROR: ld.so");
    if (noise != std::string::npos) {
      outcome.error.erase(noise, outcome.error.find('\n', noise) - noise + 1);
    }
    return outcome;
  }

  Outcome Krux(const std::vector<std::string>& words) { return Finish(Start(words)); }

  Outcome RunShell(const std::string& script) {
    return Krux({"run", "--run-folder", run_folder(), "--", "/bin/sh", "-c", script});
  }

  bool Appears(const std::string& path) {
    const Nanos end = MonotonicNow() + 30 * kSecond;
    while (access(path.c_str(), F_OK) != 0) {
      if (MonotonicNow() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::string folder_;
};

TEST_F(KruxTest, WrongUseIsOneSentenceAndExitCode2AndStartsNothing) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"walk"},
      {"run"},
      {"run", "--"},
      {"run", "--gpumem", "0", "--", "true"},
      {"run", "--gpumem", "--", "true"},
      {"run", "--gpucores", "101", "--", "true"},
      {"run", "--gpucores", "0", "--", "true"},
      {"run", "--policy", "fair", "--", "true"},
      {"run", "--policy", "fixed", "--", "true"},
      {"run", "--priority", "high", "--", "true"},
      {"run", "--gpu", "GPU-x", "--", "true"},
      {"run", "--gpumme", "4GiB", "--", "true"},
      {"run", "--gpucores", "30", "true"},
      {"run", "--run-folder", "relative", "--", "true"},
      {"status", "--yaml"},
      {"status", "--", "true"},
  };
  for (auto words : wrong) {
    const bool runs = words.size() > 1 && words[0] == "run";
    if (runs) words.insert(words.begin() + 1, {"--run-folder", run_folder()});
    const Outcome outcome = Krux(words);
    EXPECT_EQ(outcome.code, 2) << ::testing::PrintToString(words);
    EXPECT_THAT(outcome.error, HasSubstr("krux: "));
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
    EXPECT_THAT(outcome.out, IsEmpty());
  }
  EXPECT_TRUE(std::filesystem::is_empty(run_folder()));
}

TEST_F(KruxTest, HelpAndVersionGoToStandardOutput) {
  EXPECT_THAT(Krux({"version"}).out, HasSubstr("krux "));
  const Outcome help = Krux({"run", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("--gpumem"));
}

TEST_F(KruxTest, AsksForWhatTheFlagsSay) {
  FakeAgent agent(run_folder());
  const Outcome outcome =
      Krux({"run", "--run-folder", run_folder(), "--gpumem", "4GiB", "--gpucores", "30", "--policy",
            "fixed", "--priority", "latency", "--gpu", "0", "--", "/bin/true"});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  ASSERT_EQ(agent.requests().size(), 1U);
  EXPECT_EQ(agent.requests()[0],
            (GpuGrant{kUuid, 4096, 30, ComputePolicy::kFixed, Priority::kLatency}));
}

TEST_F(KruxTest, WithoutMemoryItAsksForAllOfTheCard) {
  FakeAgent agent(run_folder());
  EXPECT_EQ(RunShell("true").code, 0);
  ASSERT_EQ(agent.requests().size(), 1U);
  EXPECT_EQ(agent.requests()[0].memory_mib, 8192U);
}

TEST_F(KruxTest, TheCommandSeesItsContainer) {
  FakeAgent agent(run_folder());
  const Outcome outcome =
      RunShell("echo $KRUX_CONTAINER_FOLDER; echo $LD_PRELOAD; echo $CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(outcome.out,
            run_folder() + "/containers/run-1\n" + run_folder() + "/nothing.so\n" + kUuid + "\n");
}

TEST_F(KruxTest, GivesTheCommandsExitCode) {
  FakeAgent agent(run_folder());
  EXPECT_EQ(RunShell("exit 7").code, 7);
  EXPECT_EQ(RunShell("kill -KILL $$").code, 128 + SIGKILL);
  const std::vector<std::string> run{"run", "--run-folder", run_folder(), "--"};
  auto missing = run;
  missing.push_back("/no/such/program");
  const Outcome outcome = Krux(missing);
  EXPECT_EQ(outcome.code, 127);
  EXPECT_THAT(outcome.error, HasSubstr("can't run '/no/such/program'"));
  auto folder = run;
  folder.push_back("/tmp");
  EXPECT_EQ(Krux(folder).code, 126);
}

TEST_F(KruxTest, ForwardsSignals) {
  FakeAgent agent(run_folder());
  const std::string ready = folder_ + "/ready";
  const pid_t pid = Start({"run", "--run-folder", run_folder(), "--", "/bin/sh", "-c",
                           "trap 'exit 9' TERM; : > " + ready + "; while :; do sleep 0.01; done"});
  ASSERT_TRUE(Appears(ready));
  kill(pid, SIGTERM);
  EXPECT_EQ(Finish(pid).code, 9);
}

TEST_F(KruxTest, HoldsTheGrantUntilTheCommandEndsAndNoLonger) {
  FakeAgent agent(run_folder());
  const std::string ready = folder_ + "/ready";
  const std::string go = folder_ + "/go";
  const pid_t pid = Start({"run", "--run-folder", run_folder(), "--", "/bin/sh", "-c",
                           ": > " + ready + "; while [ ! -e " + go + " ]; do sleep 0.01; done"});
  ASSERT_TRUE(Appears(ready));
  EXPECT_EQ(agent.returned.load(), 0);
  std::ofstream(go).flush();
  EXPECT_EQ(Finish(pid).code, 0);
  while (agent.returned.load() == 0) std::this_thread::yield();
}

TEST_F(KruxTest, TheCommandDiesWithKrux) {
  FakeAgent agent(run_folder());
  const std::string ready = folder_ + "/ready";
  const pid_t pid = Start({"run", "--run-folder", run_folder(), "--", "/bin/sh", "-c",
                           "echo $$ > " + ready + ".new; mv " + ready + ".new " + ready +
                               "; while :; do sleep 0.01; done"});
  ASSERT_TRUE(Appears(ready));
  const pid_t child = std::stoi(*ReadFile(ready, 100));
  kill(pid, SIGKILL);
  EXPECT_EQ(Finish(pid).code, -SIGKILL);
  const Nanos end = MonotonicNow() + 30 * kSecond;
  const std::string state = "/proc/" + std::to_string(child) + "/stat";
  // Gone, or a zombie that nobody has waited for yet.
  const auto over = [&] {
    const auto text = ReadFile(state, 4096);
    return !text || text->find(") Z ") != std::string::npos;
  };
  while (!over() && MonotonicNow() < end) std::this_thread::yield();
  EXPECT_TRUE(over());
}

TEST_F(KruxTest, SaysWhyTheAgentRefused) {
  FakeAgent agent(run_folder());
  agent.refusal = api::ErrorToJson({ErrorCode::kResourceExhausted, "the card has 1 GiB left"});
  const Outcome outcome = RunShell("echo never");
  EXPECT_EQ(outcome.code, 125);
  EXPECT_EQ(outcome.error, "krux: the card has 1 GiB left\n");
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(KruxTest, SaysThatThereIsNoCard) {
  FakeAgent agent(run_folder());
  agent.status =
      R"({"v":1,"ok":true,"driver":"none","driverReason":"no driver","gpus":[],"pods":[]})";
  const Outcome outcome = RunShell("echo never");
  EXPECT_EQ(outcome.code, 125);
  EXPECT_THAT(outcome.error, HasSubstr("no GPU found (no driver)"));
  EXPECT_THAT(agent.requests(), IsEmpty());
}

TEST_F(KruxTest, RefusesAnIndexThatIsNotThereAndTheWrongDriver) {
  FakeAgent agent(run_folder());
  const auto with = [&](const std::string& gpu) {
    return Krux({"run", "--run-folder", run_folder(), "--gpu", gpu, "--", "true"});
  };
  EXPECT_EQ(with("1").code, 2);
  EXPECT_EQ(with("nvidia").code, 125);
  EXPECT_THAT(agent.requests(), IsEmpty());
}

TEST_F(KruxTest, RefusesAFolderThatOthersCanWrite) {
  ASSERT_EQ(chmod(run_folder().c_str(), 0777), 0);
  const Outcome outcome = RunShell("echo never");
  EXPECT_EQ(outcome.code, 125);
  EXPECT_THAT(outcome.error, HasSubstr("nobody else can write"));
}

TEST_F(KruxTest, StatusShowsWhatTheAgentSays) {
  EXPECT_EQ(Krux({"status", "--run-folder", run_folder()}).code, 125);
  FakeAgent agent(run_folder());
  const Outcome table = Krux({"status", "--run-folder", run_folder()});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, HasSubstr(kUuid));
  EXPECT_THAT(Krux({"status", "--run-folder", run_folder(), "--json"}).out, HasSubstr("8192"));
}

// A copy of krux with a krux-agent beside it that notes its start.
class KruxStartsAgents : public KruxTest {
 protected:
  void SetUp() override {
    KruxTest::SetUp();
    std::filesystem::create_directories(folder_ + "/bin");
    std::filesystem::create_directories(folder_ + "/lib");
    std::filesystem::copy_file(KRUX_PROGRAM, folder_ + "/bin/krux");
    std::ofstream(folder_ + "/lib/libkrux.so") << "not a library";
  }
  void InstallAgent(const std::string& script) {
    const std::string path = folder_ + "/bin/krux-agent";
    std::ofstream(path) << "#!/bin/sh\necho started >> " << folder_ << "/starts\n"
                        << script << "\n";
    chmod(path.c_str(), 0755);
  }
  pid_t StartCopy() {
    return Start({"run", "--run-folder", run_folder(), "--gpu", "sim", "--", "/bin/true"},
                 folder_ + "/bin/krux");
  }
};

TEST_F(KruxStartsAgents, AndTellsWhyOneDidNotStart) {
  InstallAgent("echo \"$@\" > " + folder_ + "/flags; echo first; echo 'the reason' >&2; exit 1");
  const Outcome outcome = Finish(StartCopy());
  EXPECT_EQ(outcome.code, 125);
  EXPECT_EQ(outcome.error, "krux: the local agent did not start: the reason\n");
  const auto flags = ReadFile(folder_ + "/flags", 4096);
  ASSERT_TRUE(flags);
  EXPECT_THAT(*flags, HasSubstr("--local --run-folder " + run_folder() + " --limiter " + folder_ +
                                "/lib/libkrux.so --gpu sim"));
}

TEST_F(KruxStartsAgents, OneForAllWhoCallAtOnce) {
  // It lives until the test's folder goes, and is played by the test.
  InstallAgent("while [ -e " + folder_ + "/starts ]; do sleep 0.01; done");
  std::vector<pid_t> callers;
  for (int i = 0; i < 4; ++i) callers.push_back(StartCopy());
  ASSERT_TRUE(Appears(folder_ + "/starts"));
  FakeAgent agent(run_folder());
  for (const pid_t pid : callers) EXPECT_EQ(Finish(pid).code, 0);
  EXPECT_EQ(*ReadFile(folder_ + "/starts", 4096), "started\n");
  EXPECT_EQ(agent.requests().size(), 4U);
}

TEST_F(KruxStartsAgents, AndNamesWhatIsNotInstalled) {
  if (access("/usr/lib/krux/libkrux.so", F_OK) == 0) GTEST_SKIP() << "Krux is installed here";
  InstallAgent("exit 0");
  std::filesystem::remove(folder_ + "/lib/libkrux.so");
  const Outcome outcome = Finish(StartCopy());
  EXPECT_EQ(outcome.code, 125);
  EXPECT_THAT(outcome.error, HasSubstr("libkrux.so is not installed: looked for"));
}

}  // namespace
}  // namespace krux::cli
