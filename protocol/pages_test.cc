// The layout's promises are static_asserts in the headers; this makes sure that they are compiled.
#include "protocol/pages.h"

#include <gtest/gtest.h>

#include "protocol/limiter_messages.h"

namespace krux {
namespace {

TEST(Pages, FitTheirFiles) {
  EXPECT_EQ(sizeof(LimitsPage), 4160U);
  EXPECT_EQ(sizeof(AccountPage), 64 + 16 * 64 + 256 * sizeof(ProcessSlot));
}

TEST(LimiterMessages, SayTheirTypeFirst) {
  EXPECT_EQ(wire::Hello{}.type, wire::Type::kHello);
  EXPECT_EQ(wire::Hello{}.resume_slot, wire::Hello::kNoSlot);
}

}  // namespace
}  // namespace krux
