#include "limiter/life/table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace krux::limiter {
namespace {

TEST(Table, AgreesWithAMapOverRandomSteps) {
  Table<uint64_t> table;
  std::map<uint64_t, uint64_t> map;
  std::mt19937_64 random(7);
  for (int step = 0; step < 200000; ++step) {
    const uint64_t key = random() % 5000 + 1;
    if (random() % 3 != 0) {
      *table.Insert(key) = map[key] = random();
    } else {
      EXPECT_EQ(table.Remove(key), map.erase(key) == 1);
    }
  }
  ASSERT_EQ(table.size(), map.size());
  for (const auto& [key, value] : map) {
    ASSERT_NE(table.Find(key), nullptr);
    EXPECT_EQ(*table.Find(key), value);
  }
  size_t odd = 0;
  for (const auto& [key, value] : map) odd += value % 2;
  table.RemoveIf([](uint64_t, uint64_t value) { return value % 2 == 1; });
  EXPECT_EQ(table.size(), map.size() - odd);
}

TEST(Table, HasNoKeyZero) {
  Table<int> table;
  EXPECT_EQ(table.Insert(0), nullptr);
  EXPECT_EQ(table.Find(0), nullptr);
  EXPECT_FALSE(table.Remove(0));
}

}  // namespace
}  // namespace krux::limiter
