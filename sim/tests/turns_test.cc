// The rules by which processes share a card's time, as pure values and in shared memory.
#include "sim/state/turns.h"

#include <gtest/gtest.h>

#include <memory>

#include "sim/state/share.h"

namespace krux::sim {
namespace {

constexpr TurnRules kRules = {2 * kMillisecond, 100 * kMicrosecond, 200 * kMicrosecond};

TEST(TurnsTest, OneAloneHasTheWholeCardForEver) {
  Turns turns;
  turns.Join(7, kUnknownDemand);
  turns.AdvanceTo(kRules, 3600 * kSecond);
  EXPECT_EQ(turns.served[7], 3600 * kSecond);
}

TEST(TurnsTest, BusyTenantsRotateBySlices) {
  Turns turns;
  turns.Join(3, kUnknownDemand);
  turns.Join(9, kUnknownDemand);
  turns.AdvanceTo(kRules, 2 * kMillisecond);
  EXPECT_EQ(turns.served[3], 2 * kMillisecond);
  EXPECT_TRUE(turns.is_switching);
  turns.AdvanceTo(kRules, 3 * kMillisecond);
  EXPECT_EQ(turns.owner, 9U);
  EXPECT_EQ(turns.served[9], 800 * kMicrosecond);
  turns.AdvanceTo(kRules, 4400 * kMicrosecond);
  EXPECT_EQ(turns.served[9], 2 * kMillisecond);
  EXPECT_EQ(turns.owner, 3U);
}

TEST(TurnsTest, SkippingRoundsGivesWhatWalkingThemGives) {
  Turns skipped;
  for (const uint32_t seat : {1U, 5U, 60U}) skipped.Join(seat, kUnknownDemand);
  skipped.demand[5] = 777 * kMillisecond + 123;
  Turns walked = skipped;
  constexpr Nanos kEnd = 10 * kSecond + 12345;
  skipped.AdvanceTo(kRules, kEnd);
  for (Nanos time = 0; time <= kEnd; time += 500 * kMicrosecond) walked.AdvanceTo(kRules, time);
  walked.AdvanceTo(kRules, kEnd);
  EXPECT_EQ(skipped.served, walked.served);
  EXPECT_EQ(skipped.owner, walked.owner);
  EXPECT_EQ(skipped.busy, walked.busy);
  EXPECT_EQ(skipped.served[5], 777 * kMillisecond + 123);
}

TEST(TurnsTest, WhoHasNoMoreWorkHandsOnAtOnce) {
  Turns turns;
  turns.Join(0, 50 * kMicrosecond);
  turns.Join(1, 50 * kMicrosecond);
  EXPECT_EQ(turns.AdvanceToService(kRules, kSecond, 1, 50 * kMicrosecond), 200 * kMicrosecond);
  EXPECT_EQ(turns.busy, 0U);
  // The context of the last one stays: it starts again without a switch.
  turns.AdvanceTo(kRules, kMillisecond);
  turns.Join(1, 80 * kMicrosecond);
  EXPECT_EQ(turns.AdvanceToService(kRules, kSecond, 1, 80 * kMicrosecond), 1030 * kMicrosecond);
}

TEST(TurnsTest, NewcomerWaitsForTheEndOfTheSlice) {
  Turns turns;
  turns.Join(0, kUnknownDemand);
  turns.AdvanceTo(kRules, 5 * kMillisecond);
  turns.Join(1, kUnknownDemand);
  EXPECT_EQ(turns.AdvanceToService(kRules, kSecond, 1, 1), 6 * kMillisecond + 200'001);
}

TEST(TurnsTest, NobodyIsServedWithoutWork) {
  Turns turns;
  EXPECT_EQ(turns.AdvanceToService(kRules, kSecond, 1, 1), kNever);
  EXPECT_EQ(turns.clock, kSecond);
}

class ShareTest : public ::testing::Test {
 protected:
  ShareTest() : card_(std::make_unique<Card>()), share_(card_.get()) {
    card_->slice_ns = kRules.slice;
    card_->drain_switch_ns = kRules.drain_switch;
    card_->preempt_switch_ns = kRules.preempt_switch;
  }
  std::unique_ptr<Card> card_;
  CardShare share_;
};

TEST_F(ShareTest, StatesFollowEachOther) {
  share_.Join(4, kSecond, kUnknownDemand);
  EXPECT_EQ(share_.ReadAt(2 * kSecond).served[4], kSecond);
  EXPECT_EQ(share_.Read().clock, kSecond);
  const Turns left = share_.Leave(4, 3 * kSecond);
  EXPECT_EQ(left.served[4], 2 * kSecond);
  EXPECT_EQ(share_.ReadAt(9 * kSecond).busy, 0U);
}

TEST_F(ShareTest, DemandGrowsWithoutANewState) {
  share_.Join(4, kSecond, kMillisecond);
  share_.SetDemand(4, 5 * kMillisecond);
  EXPECT_TRUE(share_.ReadAt(kSecond + 4 * kMillisecond).IsBusy(4));
  EXPECT_FALSE(share_.ReadAt(kSecond + 5 * kMillisecond).IsBusy(4));
}

TEST_F(ShareTest, DemandOfAnEarlierStayDoesNotCount) {
  share_.Join(4, kSecond, kMillisecond);
  const uint64_t old = card_->seats[4].demand.load();
  share_.Join(4, 2 * kSecond, kMillisecond);
  card_->seats[4].demand.store(old);  // as if the process died before it wrote the new one
  EXPECT_TRUE(share_.ReadAt(2 * kSecond + 999 * kMicrosecond).IsBusy(4));
  EXPECT_EQ(share_.Leave(4, 3 * kSecond).served[4], 2 * kMillisecond);
}

TEST_F(ShareTest, ADeathBeforeTheSwapChangesNothing) {
  share_.Join(4, kSecond, kUnknownDemand);
  const Turns before = share_.ReadAt(2 * kSecond);
  // Seat 9 filled a node and was killed.
  for (TurnsNode* node : {&card_->nodes[18], &card_->nodes[19]}) {
    node->busy.store(~uint64_t{0});
    node->clock.store(12345);
  }
  EXPECT_EQ(share_.ReadAt(2 * kSecond).served, before.served);
}

TEST_F(ShareTest, ViewFindsTimesInThePast) {
  const Turns start = share_.Join(4, kSecond, kMillisecond);
  share_.Join(9, kSecond + 3 * kMillisecond, kUnknownDemand);
  SeatView view(share_, 4, kSecond, start.served[4]);
  EXPECT_TRUE(view.Covers(kMillisecond));
  EXPECT_EQ(view.WhenServed(kMillisecond, kNever), kSecond + kMillisecond);
}

TEST_F(ShareTest, GarbageNeitherCrashesNorHangs) {
  uint64_t random = 88172645463325252;
  const auto next = [&random] {
    random ^= random << 13;
    random ^= random >> 7;
    return random ^= random << 17;
  };
  for (int round = 0; round < 2000; ++round) {
    auto* words = reinterpret_cast<std::atomic<uint64_t>*>(card_.get());
    for (size_t i = 0; i < sizeof(Card) / 8; i += 1 + next() % 7) words[i].store(next());
    share_.ReadAt(5 * kSecond);
    share_.Join(static_cast<uint32_t>(next() % 64), 6 * kSecond, 5);
    share_.Leave(static_cast<uint32_t>(next() % 64), 7 * kSecond);
    SeatView view(share_, 3, kSecond, 0);
    view.WhenServed(static_cast<Nanos>(next() >> 9), 40 * kSecond);
    view.ServedAt(50 * kSecond);
  }
}

}  // namespace
}  // namespace krux::sim
