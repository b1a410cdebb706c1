// krux-sim as its users see it, and the making of a node.
#include <sys/stat.h>

#include <cstdio>

#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

class ToolTest : public SimTest {
 protected:
  // Output (both streams) and exit code of `krux-sim <arguments>`.
  std::string Run(const std::string& arguments, int* code) {
    FILE* pipe = popen((std::string(KRUX_SIM_TOOL) + " " + arguments + " 2>&1").c_str(), "r");
    std::string output;
    char buffer[512];
    while (const size_t got = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, got);
    const int status = pclose(pipe);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return output;
  }
};

TEST_F(ToolTest, MakesANodeOnce) {
  int code = 0;
  Run("init --gpus 2 --memory-mib 4096 --name Small --node a", &code);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(Node().data().card_count, 2U);
  EXPECT_EQ(Node().card(1).memory_bytes, 4096 * kTestMiB);
  EXPECT_STREQ(Node().card(1).name, "Small");
  EXPECT_NE(Run("init", &code).find("exists"), std::string::npos);
  EXPECT_EQ(code, 1);
}

TEST_F(ToolTest, SameNodeNameGivesTheSameCards) {
  NodeOptions options;
  options.node = "node-a";
  options.gpus = 2;
  const auto first = std::make_unique<State>();
  const auto second = std::make_unique<State>();
  const auto other = std::make_unique<State>();
  ASSERT_TRUE(FillState(options, first.get()));
  ASSERT_TRUE(FillState(options, second.get()));
  EXPECT_EQ(memcmp(first->cards[1].uuid, second->cards[1].uuid, 16), 0);
  EXPECT_NE(memcmp(first->cards[0].uuid, first->cards[1].uuid, 16), 0);
  options.node = "node-b";
  ASSERT_TRUE(FillState(options, other.get()));
  EXPECT_NE(memcmp(first->cards[0].uuid, other->cards[0].uuid, 16), 0);
}

TEST_F(ToolTest, RefusesWrongInputInOneSentence) {
  int code = 0;
  EXPECT_NE(Run("status", &code).find("run krux-sim init"), std::string::npos);
  EXPECT_EQ(code, 1);
  EXPECT_NE(Run("init --model Z9", &code).find("H200"), std::string::npos);
  EXPECT_EQ(code, 1);
  EXPECT_NE(Run("init --gpus 99", &code).find("1 to 16"), std::string::npos);
  EXPECT_EQ(code, 1);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/state"));
  MakeNode();
  EXPECT_NE(Run("lose 7", &code).find("is not there"), std::string::npos);
  EXPECT_EQ(code, 1);
  EXPECT_NE(Run("take 0 999999", &code).find("free"), std::string::npos);
  EXPECT_EQ(code, 1);
}

TEST_F(ToolTest, ShowsAndChangesTheNode) {
  MakeNode();
  int code = 0;
  Run("take 0 1000", &code);
  EXPECT_EQ(code, 0);
  EXPECT_NE(Run("status", &code).find("1000 of 143771 MiB used"), std::string::npos);
  Run("lose 0", &code);
  EXPECT_NE(Run("status", &code).find("LOST"), std::string::npos);
  Run("heal 0", &code);
  Run("take 0 0", &code);
  EXPECT_NE(Run("status", &code).find("healthy, 0 of"), std::string::npos);
}

TEST_F(ToolTest, FirstUsersAtOnceMakeOneNode) {
  auto* go = Shared<std::atomic<int>>();
  auto* first_bytes = Shared<std::atomic<uint64_t>>();
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(Start([=] {
      while (go->load() == 0) sched_yield();
      KRUX_CUDA_OK(cuInit(0));
      CUuuid uuid{};
      KRUX_CUDA_OK(cuDeviceGetUuid(&uuid, 0));
      uint64_t mine = 0;
      memcpy(&mine, uuid.bytes, sizeof mine);
      uint64_t none = 0;
      if (!first_bytes->compare_exchange_strong(none, mine)) {
        EXPECT_EQ(none, mine);
      }
    }));
  }
  go->store(1);
  for (const pid_t child : children) EXPECT_EQ(ExitCode(child), 0);
  struct stat info{};
  ASSERT_EQ(stat((folder_ + "/state").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666U);
}

TEST_F(ToolTest, RefusesAFileThatIsNoNode) {
  FILE* file = fopen((folder_ + "/state").c_str(), "w");
  ASSERT_NE(file, nullptr);
  fputs("not a node", file);
  fclose(file);
  EXPECT_FALSE(SharedState::Open(folder_));
  InChild([] { EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE); });
}

}  // namespace
}  // namespace krux::sim
