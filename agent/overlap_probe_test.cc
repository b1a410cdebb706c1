#include "agent/overlap_probe.h"

#include <gtest/gtest.h>

#include <functional>

namespace krux::agent {
namespace {

using Rates = std::map<OverlapProbe::TenantId, double>;

// Tenants with one rate in turns and one together, in launches a second.
class Card {
 public:
  Rates turns;
  Rates together;
  bool allowed = true;

  // Returns the part of the time from now on that was spent together.
  double Run(Nanos length) {
    const Nanos end = now_ + length;
    Nanos spent = 0;
    for (; now_ < end; now_ += kStep) {
      for (auto& [id, done] : done_) {
        const double rate = (is_together_ ? together : turns)[id];
        done += rate * static_cast<double>(kStep) / kSecond;
      }
      spent += is_together_ ? kStep : 0;
      OverlapProbe::Progress progress;
      for (const auto& [id, rate] : turns) {
        progress[id] = static_cast<uint64_t>(done_.try_emplace(id, 0).first->second);
      }
      probe.Arm(now_);
      if (now_ >= probe.next_look()) is_together_ = probe.Look(progress, allowed, now_);
    }
    return static_cast<double>(spent) / static_cast<double>(length);
  }

  bool is_together() const { return is_together_; }
  OverlapProbe probe;

 private:
  static constexpr Nanos kStep = kMillisecond;
  std::map<OverlapProbe::TenantId, double> done_;
  bool is_together_ = false;
  Nanos now_ = kSecond;
};

TEST(OverlapProbe, ChoosesTogetherWhenAllGainByIt) {
  Card card;
  card.turns = {{1, 1220}, {2, 1220}};
  card.together = {{1, 1493}, {2, 1493}};
  card.Run(kSecond);
  EXPECT_TRUE(card.is_together());
  EXPECT_GE(card.Run(20 * kSecond), 0.95);
}

// Four eager decoders on an H200 under time slicing: 577, 458, 457 and 904 steps, in turns about
// 460.
TEST(OverlapProbe, StaysTogetherThoughTheHardwareServesNowOneAndNowAnother) {
  Card card;
  card.turns = {{1, 23000}, {2, 23000}, {3, 23000}, {4, 23000}};
  card.together = {{1, 32000}, {2, 32000}, {3, 32000}, {4, 60000}};
  card.Run(kSecond);
  ASSERT_TRUE(card.is_together());
  Nanos together = 0;
  for (int i = 0; i < 40; ++i) {
    card.together = {{1, 32000}, {2, 32000}, {3, 32000}, {4, 32000}};
    card.together[1 + i % 4] = 60000;
    together += static_cast<Nanos>(card.Run(250 * kMillisecond) * 250);
  }
  EXPECT_GE(together, 9500);
}

TEST(OverlapProbe, StaysInTurnsWhenSlicingLoses) {
  Card card;
  card.turns = {{1, 7200}, {2, 7200}};
  card.together = {{1, 2670}, {2, 2670}};
  EXPECT_LE(card.Run(4 * kSecond), 0.05);
  EXPECT_LE(card.Run(60 * kSecond), 0.005);
}

TEST(OverlapProbe, NeverTakesSomebodysShareForATotalThatIsHigher) {
  Card card;
  card.turns = {{1, 2000}, {2, 18000}};
  card.together = {{1, 9000}, {2, 9000}};
  card.Run(10 * kSecond);
  EXPECT_LE(card.Run(60 * kSecond), 0.01);
}

TEST(OverlapProbe, GoesBackWhenItStopsBeingGood) {
  Card card;
  card.turns = {{1, 1000}, {2, 1000}};
  card.together = {{1, 1500}, {2, 1500}};
  card.Run(2 * kSecond);
  ASSERT_TRUE(card.is_together());
  card.together = {{1, 700}, {2, 700}};
  card.Run(2 * kSecond);
  EXPECT_LE(card.Run(60 * kSecond), 0.02);
}

TEST(OverlapProbe, TriesAgainWhenANewcomerChangesThePicture) {
  Card card;
  card.turns = {{1, 1000}, {2, 1000}};
  card.together = {{1, 1500}, {2, 1500}};
  card.Run(2 * kSecond);
  card.turns[3] = 900;
  card.together = {{1, 300}, {2, 300}, {3, 300}};
  card.Run(2 * kSecond);
  EXPECT_LE(card.Run(60 * kSecond), 0.02);
}

TEST(OverlapProbe, FewLaunchesSayNothing) {
  Card card;
  card.turns = {{1, 25}, {2, 25}};
  card.together = {{1, 50}, {2, 50}};
  EXPECT_LE(card.Run(60 * kSecond), 0.05);
}

TEST(OverlapProbe, RestsWhenOneTenantIsLeft) {
  Card card;
  card.turns = {{1, 1000}, {2, 1000}};
  card.together = {{1, 1500}, {2, 1500}};
  card.Run(2 * kSecond);
  card.turns[2] = card.together[2] = 0;
  card.Run(kSecond);
  EXPECT_FALSE(card.is_together());
  EXPECT_EQ(card.Run(5 * kSecond), 0);
}

TEST(OverlapProbe, IsNotDoneBesideATenantThatMustTakeTurns) {
  Card card;
  card.turns = {{1, 1000}, {2, 1000}};
  card.together = {{1, 1500}, {2, 1500}};
  card.Run(2 * kSecond);
  ASSERT_TRUE(card.is_together());
  card.allowed = false;
  card.Run(300 * kMillisecond);
  EXPECT_EQ(card.Run(10 * kSecond), 0);
}

TEST(OverlapProbe, UnarmedItAsksForNoTimer) {
  OverlapProbe probe;
  EXPECT_EQ(probe.next_look(), OverlapProbe::kNever);
  EXPECT_FALSE(probe.Look({{1, 5}}, true, kSecond));
}

}  // namespace
}  // namespace krux::agent
