// What people reported of other limiters with several cards and with memory that processes share,
// as tests (docs/memory.md has the table): the library preloaded on a simulated node with two
// cards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "limiter/testing/client_run.h"
#include "limiter/testing/fake_agent.h"

namespace krux::limiter {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string UuidText(const std::array<uint8_t, 16>& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    char digits[4];
    snprintf(digits, sizeof digits, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
             uuid[i]);
    text += digits;
  }
  return text;
}

// Between "as " and ";" in the line of a handle.
std::string HandleIn(const std::string& text) {
  const size_t begin = text.find(" as ") + 4;
  return text.substr(begin, text.find(';', begin) - begin);
}

class TwoCards : public ::testing::Test {
 protected:
  TwoCards() {
    const std::string make =
        "KRUX_SIM_FOLDER=" + sim_.path() + " " KRUX_SIM_TOOL " init --gpus 2 > /dev/null";
    EXPECT_EQ(system(make.c_str()), 0);
    options_.sim_folder = sim_.path();
    options_.container_folder = container_.path();
    for (unsigned i = 0; i < 2; ++i) {
      gpus_.push_back({});
      gpus_.back().uuid = SimulatedUuid(sim_.path(), i);
    }
    agent_ = std::make_unique<FakeAgent>(container_.path(), gpus_);
  }

  uint64_t used(uint32_t gpu) { return agent_->account().gpus[gpu].used_bytes; }

  TempFolder sim_, container_;
  ClientOptions options_;
  std::vector<FakeAgent::Gpu> gpus_;
  std::unique_ptr<FakeAgent> agent_;
};

// NVML lists both cards, whatever the program has made visible for CUDA.
TEST_F(TwoCards, UseIsShownOnTheCardThatHoldsIt) {
  for (const std::string& second : {std::string("1"), UuidText(gpus_[1].uuid)}) {
    options_.more_environment = {"CUDA_VISIBLE_DEVICES=" + second};
    Client client(options_, {"init", "ctx", "alloc:104857600", "cards", "wait"});
    ASSERT_TRUE(client.ReadUntil("cards 0:0 0:620\nwaiting")) << second;
    EXPECT_EQ(used(0), 0U);
    EXPECT_EQ(used(1), 620 * kMiB);
    client.Continue();
    client.ReadAll();
    agent_->account().gpus[1].used_bytes = 0;  // this agent does not look after the dead
  }
}

TEST_F(TwoCards, PeersAreAsWithoutTheLimiter) {
  const std::string with = Client(options_, {"init", "peers"}).ReadAll();
  options_.preload = false;
  EXPECT_EQ(with, Client(options_, {"init", "peers"}).ReadAll());
  EXPECT_THAT(with, HasSubstr("0-1:0/1/0/1/0"));
}

TEST_F(TwoCards, SharedHandlesAreChargedOnceToTheirOwner) {
  Client owner(options_, {"init", "ctx", "share:67108864", "wait"});
  ASSERT_TRUE(owner.ReadUntil("waiting"));
  EXPECT_THAT(owner.text(), HasSubstr("share 0"));
  EXPECT_EQ(used(0), (520 + 64) * kMiB);
  Client other(options_, {"init", "ctx", "import:" + HandleIn(owner.text()), "wait"});
  ASSERT_TRUE(other.ReadUntil("import 0\nwaiting"));
  EXPECT_EQ(used(0), (520 + 64 + 520) * kMiB);
  EXPECT_EQ(agent_->account().processes[0].gpus[0].charged_bytes, (520 + 64) * kMiB);
}

TEST_F(TwoCards, MemoryOpenedByIpcIsChargedOnceToItsOwner) {
  Client owner(options_, {"init", "ctx", "ipcget", "wait"});
  ASSERT_TRUE(owner.ReadUntil("waiting"));
  EXPECT_THAT(owner.text(), HasSubstr("ipcget 0"));
  EXPECT_EQ(used(0), (520 + 2) * kMiB);
  Client other(options_, {"init", "ctx", "ipcopen:" + HandleIn(owner.text()), "wait"});
  ASSERT_TRUE(other.ReadUntil("ipcopen 0\nwaiting"));
  EXPECT_EQ(used(0), (520 + 2 + 520) * kMiB);
}

}  // namespace
}  // namespace krux::limiter
