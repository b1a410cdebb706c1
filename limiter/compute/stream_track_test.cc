#include "limiter/compute/stream_track.h"

#include <gtest/gtest.h>

#include <memory>

namespace krux::limiter {
namespace {

constexpr uint64_t kTicksPerSecond = 1000000000;  // a tick is a nanosecond here
constexpr Ticks kMicro = 1000, kMilli = 1000 * kMicro;

class StreamTrackTest : public ::testing::Test {
 protected:
  StreamTrackTest() {
    costs_->Init();
    track_.Begin(&pace_, costs_.get(), &marker_);
  }

  void PutMarker(Ticks now) {
    ASSERT_NE(track_.NextMarker(), 0U);
    track_.OnMarkerPut(now);
  }

  Pace pace_ = Pace::At(TickRate(kTicksPerSecond));
  std::unique_ptr<CostModel> costs_ = std::make_unique<CostModel>();
  Cost& kernel_ = costs_->Find(CostModel::KeyOf(1, 1000));
  std::atomic<uint64_t> marker_{0};
  StreamTrack track_;
};

TEST_F(StreamTrackTest, MarksUnknownLaunchesAtOnceAndKnownOnesBySum) {
  track_.Record(kernel_, 0);
  EXPECT_TRUE(track_.WantsMarker());
  PutMarker(0);
  costs_->Learn(kernel_, 10 * kMicro, Evidence::kExact);
  for (int i = 0; i < 99; ++i) track_.Record(kernel_, 0);
  EXPECT_FALSE(track_.WantsMarker());
  track_.Record(kernel_, 0);
  EXPECT_TRUE(track_.WantsMarker());  // 100 x 10 us
}

TEST_F(StreamTrackTest, MarksShortLaunchesByNumber) {
  costs_->Learn(kernel_, 100, Evidence::kExact);
  for (uint32_t i = 0; i + 1 < Pace::kLaunchesPerMarker; ++i) track_.Record(kernel_, 0);
  EXPECT_FALSE(track_.WantsMarker());
  track_.Record(kernel_, 0);
  EXPECT_TRUE(track_.WantsMarker());
}

TEST_F(StreamTrackTest, LearnsTheCostOfABusyStream) {
  Ticks now = 0;
  for (int i = 0; i < 4; ++i) {
    track_.Record(kernel_, now);
    PutMarker(now);
  }
  for (uint64_t done = 1; done <= 40; ++done) {
    now += 5 * kMilli;
    marker_ = done;
    EXPECT_TRUE(track_.Observe(now));
    track_.Record(kernel_, now);
    PutMarker(now);
  }
  EXPECT_NEAR(static_cast<double>(kernel_.ticks), 5e6, 1e5);
  EXPECT_NEAR(static_cast<double>(track_.outstanding_cost()), 20e6, 1e6);
  EXPECT_EQ(track_.outstanding_launches(), 4U);
}

TEST_F(StreamTrackTest, ALateLookDoesNotMakeALaunchLong) {
  costs_->Learn(kernel_, 10 * kMicro, Evidence::kExact);
  track_.Record(kernel_, 0);
  PutMarker(0);
  marker_ = 1;
  EXPECT_TRUE(track_.Observe(50 * kMilli));  // long after it was done
  EXPECT_LT(kernel_.ticks, 11 * kMicro);
}

// Four launches of 1 ms, one behind the other; the second's marker is seen 0.9 ms late.
TEST_F(StreamTrackTest, ALateLookAtABusyStreamTeachesNothing) {
  costs_->Learn(kernel_, kMilli, Evidence::kExact);
  for (int i = 0; i < 4; ++i) {
    track_.Record(kernel_, 0);
    PutMarker(0);
  }
  marker_ = 1;
  EXPECT_TRUE(track_.Observe(kMilli));
  marker_ = 2;
  EXPECT_TRUE(track_.Observe(2 * kMilli + 900 * kMicro));
  EXPECT_NEAR(static_cast<double>(kernel_.ticks), 1e6, 1e4);
}

TEST_F(StreamTrackTest, TheEndIsExpectedFromWhenAMarkerWasPassedAndNotFromWhenItWasSeen) {
  costs_->Learn(kernel_, kMilli, Evidence::kExact);
  for (int i = 0; i < 3; ++i) {
    track_.Record(kernel_, 0);
    PutMarker(0);
  }
  EXPECT_FALSE(track_.Observe(800 * kMicro));
  marker_ = 1;
  EXPECT_TRUE(track_.Observe(1600 * kMicro));  // passed between the two looks
  EXPECT_NEAR(static_cast<double>(track_.expected_done()), 3.2e6, 1e4);
  EXPECT_FALSE(track_.Observe(2300 * kMicro));  // so the second is not done before now
  EXPECT_NEAR(static_cast<double>(track_.expected_done()), 3.3e6, 1e4);
}

TEST_F(StreamTrackTest, FinishedNeedsTheMarker) {
  track_.Record(kernel_, 0);
  PutMarker(0);
  EXPECT_FALSE(track_.Finished(3600 * kTicksPerSecond));
  marker_ = 1;
  EXPECT_TRUE(track_.Finished(3600 * kTicksPerSecond));
}

TEST_F(StreamTrackTest, AnUnmarkedTailIsFinishedByItsTime) {
  costs_->Learn(kernel_, 40 * kMicro, Evidence::kExact);
  track_.Record(kernel_, 0);
  EXPECT_FALSE(track_.Finished(100 * kMicro));
  EXPECT_FALSE(track_.Finished(240 * kMicro));
  EXPECT_TRUE(track_.Finished(260 * kMicro));
}

// The clock is read for the first of them only: the last may have been issued just now.
TEST_F(StreamTrackTest, AnUnmarkedTailThatGrewIsNotFinished) {
  costs_->Learn(kernel_, 40 * kMicro, Evidence::kExact);
  EXPECT_TRUE(track_.WantsTime());
  track_.Record(kernel_, kMilli);
  EXPECT_FALSE(track_.WantsTime());
  EXPECT_FALSE(track_.Finished(kMilli));
  track_.Record(kernel_, 0);
  EXPECT_FALSE(track_.Finished(10 * kMilli));
  EXPECT_TRUE(track_.Finished(11 * kMilli));
}

TEST_F(StreamTrackTest, NothingIsFinishedWhileSomebodyWaitsForIt) {
  costs_->Learn(kernel_, 40 * kMicro, Evidence::kExact);
  track_.Record(kernel_, 0);
  const uint64_t issued = track_.BeginSynchronize();
  EXPECT_FALSE(track_.Finished(10 * kMilli));  // the prediction was wrong
  track_.EndSynchronize(issued, 20 * kMilli);
  EXPECT_TRUE(track_.Finished(20 * kMilli));
  EXPECT_GT(kernel_.ticks, 4 * kMilli);  // and is mended
}

TEST_F(StreamTrackTest, ASynchronizeSaysNothingOfLaterLaunches) {
  track_.Record(kernel_, 0);
  const uint64_t issued = track_.BeginSynchronize();
  track_.Record(kernel_, 10);
  track_.EndSynchronize(issued, 20);
  EXPECT_EQ(track_.outstanding_launches(), 2U);
}

TEST_F(StreamTrackTest, ARefusedLaunchLeavesNothing) {
  const Ticks predicted = track_.Record(kernel_, 0);
  track_.TakeBack(kernel_, predicted);
  EXPECT_EQ(track_.outstanding_launches(), 0U);
  EXPECT_EQ(track_.outstanding_cost(), 0U);
  EXPECT_TRUE(track_.Finished(1));
}

TEST_F(StreamTrackTest, ASynchronizeBesideALaunchOnItsWayIsNotCertain) {
  track_.Record(kernel_, 0);
  const uint64_t issued = track_.BeginSynchronize();
  track_.EndSynchronize(issued, 20, /*certain=*/false);
  EXPECT_EQ(track_.outstanding_launches(), 1U);
}

TEST_F(StreamTrackTest, GarbageInTheMarkerIsNoProgress) {
  track_.Record(kernel_, 0);
  PutMarker(0);
  marker_ = 999;
  EXPECT_FALSE(track_.Observe(10));
  EXPECT_FALSE(track_.Finished(kMilli));
}

TEST(CostModelTest, KeepsSizesApartAndSurvivesAFullTable) {
  auto costs = std::make_unique<CostModel>();
  costs->Init();
  EXPECT_NE(CostModel::KeyOf(1, 100), CostModel::KeyOf(1, 100000));
  EXPECT_EQ(CostModel::KeyOf(1, 1000), CostModel::KeyOf(1, 1001));
  for (uint64_t i = 1; i < 100000; ++i) costs->Find(CostModel::KeyOf(i, 1)).ticks = 1;
  EXPECT_EQ(&costs->Find(CostModel::KeyOf(1, 1)), &costs->Find(CostModel::KeyOf(1, 1)));
}

TEST(CostModelTest, AnUpperBoundOnlyLowers) {
  CostModel costs;
  Cost cost;
  costs.Learn(cost, 100, Evidence::kUpperBound);
  costs.Learn(cost, 1000, Evidence::kUpperBound);
  EXPECT_EQ(cost.ticks, 100U);
  for (int i = 0; i < 20; ++i) costs.Learn(cost, 10, Evidence::kUpperBound);
  EXPECT_LT(cost.ticks, 20U);
}

}  // namespace
}  // namespace krux::limiter
