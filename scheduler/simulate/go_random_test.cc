#include "scheduler/simulate/go_random.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace krux::simulate {
namespace {

// As printed by a Go program: rand.New(rand.NewSource(42)).
TEST(GoRandom, DrawsWhatGoDraws) {
  GoRandom random(42);
  EXPECT_EQ(random.Int63(), 3440579354231278675);
  EXPECT_EQ(random.Int63(), 608747136543856411);
  EXPECT_EQ(random.Intn(1000), 668);
  EXPECT_EQ(random.Intn(1000), 750);
  std::vector<int> items(10);
  std::iota(items.begin(), items.end(), 0);
  random.Shuffle(&items);
  EXPECT_EQ(items, (std::vector<int>{1, 4, 9, 5, 8, 7, 2, 6, 3, 0}));
}

}  // namespace
}  // namespace krux::simulate
