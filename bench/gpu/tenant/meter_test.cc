#include "bench/gpu/tenant/meter.h"

#include <gtest/gtest.h>

namespace krux::bench {
namespace {

TEST(Meter, CountsWhatFinishedInItsSpan) {
  const double now = Now();
  Meter meter({now - 1, now + 1});
  meter.Add(10);
  EXPECT_FALSE(meter.IsOver());
  // All in one instant in the middle: every window of one second but the edges' holds it.
  EXPECT_NEAR(meter.Rate(), 10, 0.5);
  EXPECT_EQ(meter.HighestWindow(), 10);
  EXPECT_NEAR(meter.LongestGap(), 1, 0.1);
}

TEST(Meter, IsOverOnceSomethingFinishedBehindTheSpan) {
  const double now = Now();
  Meter meter({now - 2, now - 1});
  meter.Add(1);
  EXPECT_TRUE(meter.IsOver());
  EXPECT_EQ(meter.Rate(), 0);
  EXPECT_NEAR(meter.LongestGap(), 1, 0.01);
  EXPECT_EQ(meter.Timeline(0.5), "[0,0]");
}

TEST(Percentile, TakesTheValueAtThePlace) {
  EXPECT_EQ(Percentile({}, 0.5), 0);
  EXPECT_EQ(Percentile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(Percentile({3, 1, 2}, 1), 3);
}

}  // namespace
}  // namespace krux::bench
