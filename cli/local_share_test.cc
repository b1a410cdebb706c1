// The whole chain without Kubernetes, on the simulated card: krux run, the local agent that it
// starts, the limiter in the programs, and the shares that they get. Shares are compared with each
// other or with the program's own measure of the card, so a slow machine changes nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/file.h"

namespace krux::cli {
namespace {

using nlohmann::json;

struct Sample {
  double time = 0;
  double kernels = 0;
};

class LocalShare : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/krux-local-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    setenv("KRUX_SIM_FOLDER", (folder_ + "/sim").c_str(), 1);
    unsetenv("KRUX_CONTAINER_FOLDER");
  }
  void TearDown() override {
    if (HasFailure()) {
      const auto log = ReadFile(folder_ + "/run/agent.log", 1 << 20);
      std::fprintf(stderr, "agent.log:\n%s\n", log ? log->c_str() : "(none)");
    }
    // The agent outlives its last program for a moment and removes files of its own meanwhile.
    std::error_code error;
    do {
      std::filesystem::remove_all(folder_, error);
    } while (std::filesystem::exists(folder_));
  }

  pid_t Start(const std::string& name, const std::vector<std::string>& flags,
              const std::vector<std::string>& command) {
    std::vector<std::string> words{KRUX_PROGRAM, "run",          "--gpu",
                                   "sim",        "--run-folder", folder_ + "/run"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string out = folder_ + "/" + name;
    const pid_t pid = fork();
    if (pid != 0) return pid;
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    execv(arguments[0], arguments.data());
    _exit(99);
  }

  std::vector<json> Finish(const std::string& name, pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << name;
    std::vector<json> lines;
    std::istringstream text(*ReadFile(folder_ + "/" + name, 1 << 20));
    for (std::string line; std::getline(text, line);) {
      lines.push_back(json::parse(line, nullptr, false));
      EXPECT_TRUE(lines.back().is_object()) << line;
    }
    return lines;
  }

  // The loop count of a kernel of `kernel_us` on this card.
  std::string Iterations(int kernel_us) {
    const auto lines = Finish(
        "calibrate", Start("calibrate", {"--gpumem", "2GiB"},
                           {KRUX_DEMO, "calibrate", "--kernel-us", std::to_string(kernel_us)}));
    return lines.empty() ? "1" : std::to_string(lines[0]["iters"].get<uint64_t>());
  }

  static std::vector<std::string> Saturate(const std::string& iterations) {
    return {KRUX_DEMO, "saturate", "--iters", iterations, "--seconds", "6", "--no-memory"};
  }

  static std::vector<Sample> Samples(const std::vector<json>& lines) {
    std::vector<Sample> samples;
    for (const json& line : lines) samples.push_back({line["time"], line["kernels"]});
    return samples;
  }

  static double KernelsAt(const std::vector<Sample>& samples, double time) {
    for (size_t i = 1; i < samples.size(); ++i) {
      if (samples[i].time < time) continue;
      const double part = (time - samples[i - 1].time) / (samples[i].time - samples[i - 1].time);
      return samples[i - 1].kernels + part * (samples[i].kernels - samples[i - 1].kernels);
    }
    return samples.back().kernels;
  }

  std::string folder_;
};

TEST_F(LocalShare, TwoSaturatingProgramsGet30To70) {
  const std::string iterations = Iterations(2000);
  const pid_t a = Start("a", {"--gpumem", "2GiB", "--gpucores", "30"}, Saturate(iterations));
  const pid_t b = Start("b", {"--gpumem", "2GiB", "--gpucores", "70"}, Saturate(iterations));
  const auto of_a = Samples(Finish("a", a));
  const auto of_b = Samples(Finish("b", b));
  ASSERT_GE(of_a.size(), 4U);
  ASSERT_GE(of_b.size(), 4U);
  const double from = std::max(of_a[1].time, of_b[1].time);
  const double to = std::min(of_a.back().time, of_b.back().time);
  ASSERT_GT(to, from + 1);
  const double got_a = KernelsAt(of_a, to) - KernelsAt(of_a, from);
  const double got_b = KernelsAt(of_b, to) - KernelsAt(of_b, from);
  EXPECT_NEAR(100 * got_a / (got_a + got_b), 30, 3);
}

TEST_F(LocalShare, ALoneFixedProgramGetsItsCeiling) {
  const std::string iterations = Iterations(2000);
  const auto got =
      Samples(Finish("a", Start("a", {"--gpumem", "2GiB", "--gpucores", "30", "--policy", "fixed"},
                                Saturate(iterations))));
  ASSERT_GE(got.size(), 4U);
  const double rate = (got.back().kernels - got[1].kernels) / (got.back().time - got[1].time);
  EXPECT_LE(100 * rate / 500, 33) << "500 kernels of 2 ms fill a second";
}

TEST_F(LocalShare, TheProgramSeesTheMemoryItWasGiven) {
  const auto lines = Finish("facts", Start("facts", {"--gpumem", "2GiB"}, {KRUX_DEMO, "facts"}));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["gpus"], 1);
  EXPECT_EQ(lines[0]["total_mib"], 2048);
  EXPECT_LE(lines[0]["held_at_refusal_mib"], 2048.0);
  EXPECT_GE(lines[0]["held_at_refusal_mib"], 2046.0);
}

}  // namespace
}  // namespace krux::cli
