#include "common/units.h"

#include <gtest/gtest.h>

namespace krux {
namespace {

TEST(ParseMemory, TakesTheFormsOfTheManual) {
  EXPECT_EQ(ParseMemory("4GiB").value(), 4 * kGiB);
  EXPECT_EQ(ParseMemory("4G").value(), 4 * kGiB);
  EXPECT_EQ(ParseMemory("512MiB").value(), 512 * kMiB);
  EXPECT_EQ(ParseMemory("4096").value(), 4 * kGiB);
}

TEST(ParseMemory, RefusesEverythingElseWithTheTextInTheMessage) {
  for (const char* text : {"", "0", "-1", "4.5GiB", " 4GiB", "4GiB ", "4TB", "GiB", "0x10",
                           "99999999999999999999", "1125899906842624GiB"}) {
    const auto result = ParseMemory(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message.find(text), std::string::npos);
  }
}

TEST(FormatMemory, ShowsWholeUnitsWherePossible) {
  EXPECT_EQ(FormatMemory(4 * kGiB), "4 GiB");
  EXPECT_EQ(FormatMemory(518 * kMiB), "518 MiB");
  EXPECT_EQ(FormatMemory(kMiB + kMiB / 2), "1.5 MiB");
}

}  // namespace
}  // namespace krux
