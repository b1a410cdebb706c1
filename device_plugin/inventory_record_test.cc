#include "device_plugin/inventory_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstdlib>

#include <filesystem>

#include "common/file.h"

namespace krux::device_plugin {
namespace {

constexpr char kUuid[] = "GPU-00000000-0000-0000-0000-000000000001";

Inventory OneCard() { return {{{kUuid, "NVIDIA H200", 143771, true, ""}}, false}; }

TEST(InventoryRecordTest, ComesBackAfterARestart) {
  char pattern[] = "/tmp/krux-record-test.XXXXXX";
  EXPECT_NE(mkdtemp(pattern), nullptr);
  const std::string folder = pattern;
  const std::string path = folder + "/" + kInventoryFile;
  EXPECT_TRUE(LoadRecord(path)->gpus.empty());
  ASSERT_TRUE(SaveRecord(path, OneCard()));
  const KnownCards known = LoadRecord(path).value();
  EXPECT_TRUE(known.same_boot);
  ASSERT_EQ(known.gpus.size(), 1U);
  EXPECT_EQ(known.gpus[0].uuid, kUuid);
  EXPECT_EQ(known.gpus[0].memory_mib, 143771U);
  ASSERT_TRUE(WriteFileDurably(path, "half a rec", 0644));
  EXPECT_EQ(LoadRecord(path).error().code, ErrorCode::kDataLoss);
  std::filesystem::remove_all(folder);
}

TEST(InventoryRecordTest, KnowsAReboot) {
  const std::string text = RecordToJson(OneCard(), "boot-1");
  EXPECT_TRUE(ParseRecord(text, "boot-1")->same_boot);
  EXPECT_FALSE(ParseRecord(text, "boot-2")->same_boot);
  EXPECT_FALSE(ParseRecord(text, "")->same_boot);
}

TEST(InventoryRecordTest, RefusesWhatIsDamaged) {
  for (const char* text :
       {"", "[]", R"({"v":2,"gpus":[]})", R"({"v":1})", R"({"v":1,"gpus":{}})",
        R"({"v":1,"gpus":[7]})", R"({"v":1,"gpus":[{"uuid":"x","memoryMiB":1}]})",
        R"({"v":1,"gpus":[{"uuid":"GPU-00000000-0000-0000-0000-000000000001"}]})",
        R"({"v":1,"gpus":[{"uuid":"GPU-00000000-0000-0000-0000-000000000001","memoryMiB":-1}]})"}) {
    EXPECT_FALSE(ParseRecord(text, "b")) << text;
  }
}

}  // namespace
}  // namespace krux::device_plugin
