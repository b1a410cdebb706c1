#include "agent/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/file.h"

namespace krux::agent {
namespace {

using testing::HasSubstr;

constexpr char kGpu[] = "GPU-00000000-0000-0000-0000-000000000001";

LedgerPod SamplePod(const std::string& uid) {
  LedgerPod pod{uid, "default", "pod-" + uid, 7, false, {}};
  pod.containers.push_back({"init",
                            ContainerKind::kInit,
                            {{kGpu, 100, 10, ComputePolicy::kFixed, Priority::kBatch}},
                            "",
                            "",
                            0});
  pod.containers.push_back({"main",
                            ContainerKind::kApp,
                            {{kGpu, 300, 30, ComputePolicy::kBalance, Priority::kNormal}},
                            "",
                            "",
                            0});
  return pod;
}

class LedgerFileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = "/tmp/krux-ledger-XXXXXX";
};

TEST(LedgerTest, TextGivesTheSameLedgerAgain) {
  Ledger ledger;
  ledger.PutPod(SamplePod("u1"));
  ledger.PutPod(SamplePod("u2"));
  ASSERT_TRUE(ledger.SetInstance({"u1", "main"}, "id1", "/kubepods/id1"));
  const auto again = Ledger::Parse(ledger.ToJson());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->pods(), ledger.pods());
}

TEST(LedgerTest, InstancesAreReplacedNotAdded) {
  Ledger ledger;
  ledger.PutPod(SamplePod("u1"));
  EXPECT_EQ(ledger.SetInstance({"u1", "main"}, "id1", "/a").value_or("?"), "");
  EXPECT_EQ(ledger.SetInstance({"u1", "main"}, "id1", "/a").value_or("?"), "");
  EXPECT_EQ(ledger.SetInstance({"u1", "main"}, "id2", "/b").value_or("?"), "id1");
  EXPECT_EQ(ledger.SetInstance({"u1", "init"}, "id2", "/b").error().code,
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(ledger.SetInstance({"u1", "no"}, "id3", "/c").error().code, ErrorCode::kNotFound);
  ledger.PutPod(SamplePod("u1"));
  EXPECT_NE(ledger.FindInstance("id2", nullptr), nullptr) << "a pod put again keeps its instances";
  ledger.ClearInstance("id2");
  EXPECT_FALSE(ledger.FindPod("u1")->AnyAlive());
}

TEST(LedgerTest, EveryCutAndFlipOfItsTextIsRefusedOrReadsAsALedger) {
  Ledger ledger;
  ledger.PutPod(SamplePod("u1"));
  const std::string text = ledger.ToJson();
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    EXPECT_FALSE(Ledger::Parse(text.substr(0, i))) << i;
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x11);
    (void)Ledger::Parse(flipped);  // must neither crash nor throw
  }
}

TEST_F(LedgerFileTest, MissingFileIsAnEmptyLedger) {
  const auto ledger = LoadLedger(folder_ + "/ledger");
  ASSERT_TRUE(ledger);
  EXPECT_TRUE(ledger->pods().empty());
}

TEST_F(LedgerFileTest, DamagedFileSaysWhatToDo) {
  ASSERT_TRUE(WriteFileDurably(folder_ + "/ledger", "{\"v\":1,\"pods\":[{\"uid\":", 0600));
  const auto ledger = LoadLedger(folder_ + "/ledger");
  ASSERT_FALSE(ledger);
  EXPECT_EQ(ledger.error().code, ErrorCode::kDataLoss);
  EXPECT_THAT(ledger.error().message, HasSubstr("move the file away"));
}

TEST_F(LedgerFileTest, SavedLedgerIsReadAgain) {
  Ledger ledger;
  ledger.PutPod(SamplePod("u1"));
  ASSERT_TRUE(SaveLedger(folder_ + "/ledger", ledger));
  EXPECT_EQ(LoadLedger(folder_ + "/ledger")->pods(), ledger.pods());
}

}  // namespace
}  // namespace krux::agent
