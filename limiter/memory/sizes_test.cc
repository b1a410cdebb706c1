#include "limiter/memory/sizes.h"

#include <gtest/gtest.h>

namespace krux::limiter {
namespace {

// The figures are an H200's (driver 580.159.04): 64 allocations of each size, device memory before
// and after.
TEST(Sizes, AreWhatTheCardTakes) {
  EXPECT_EQ(OwnBytes(kMebibyte + 1), 2 * kMebibyte);
  EXPECT_EQ(OwnBytes(3 * kMebibyte / 2), 2 * kMebibyte);
  EXPECT_EQ(OwnBytes(2 * kMebibyte + 1), 4 * kMebibyte);
  EXPECT_EQ(OwnBytes(3 * kMebibyte), 4 * kMebibyte);
  EXPECT_EQ(OwnBytes(4 * kMebibyte + 1), 6 * kMebibyte);
  EXPECT_EQ(OwnBytes(16 * kMebibyte + 1), 18 * kMebibyte);
  EXPECT_EQ(OwnBytes(32 * kMebibyte), 32 * kMebibyte);
  EXPECT_EQ(BytesInSlab(3 * kMebibyte / 4), 3 * kMebibyte / 4);
  EXPECT_EQ(BytesInSlab(64 * 1024), 64U * 1024);
  EXPECT_EQ(PoolGrowth(1), 32 * kMebibyte);
  EXPECT_EQ(PoolGrowth(33 * kMebibyte), 64 * kMebibyte);
  EXPECT_TRUE(SharesSlab(kMebibyte));
  EXPECT_FALSE(SharesSlab(kMebibyte + 1));
}

TEST(Sizes, SaturateOnHostileInput) {
  EXPECT_EQ(OwnBytes(UINT64_MAX), kTooLarge);
  EXPECT_EQ(Product(UINT64_MAX, 2), kTooLarge);
  EXPECT_EQ(Product(0, UINT64_MAX), 0U);
  EXPECT_EQ(ArrayBytes({UINT64_MAX, UINT64_MAX, UINT64_MAX, 16}), kTooLarge);
  EXPECT_GT(MipmapBytes({1U << 20, 1U << 20, 1U << 10, 16}, UINT32_MAX), uint64_t{1} << 50);
}

TEST(Sizes, BoundArraysFromAbove) {
  EXPECT_EQ(ArrayBytes({16384, 16384, 0, 4}), uint64_t{1} << 30);
  EXPECT_GE(ArrayBytes({1000, 1000, 0, 4}), 1000U * 1000 * 4);
  EXPECT_EQ(ArrayBytes({1, 0, 0, 1}), kSlabBytes);
}

}  // namespace
}  // namespace krux::limiter
