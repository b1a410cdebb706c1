#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device_plugin/inventory.h"
#include "device_plugin/slots.h"

namespace krux::device_plugin {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

gpu::Device Card(const std::string& uuid) { return {uuid, "NVIDIA H200", 143771ULL << 20, 0, ""}; }

TEST(SlotsTest, IdsAndNumbersAreOneToOne) {
  for (const int number : {0, 7, 127, kMaxSlots - 1}) {
    EXPECT_EQ(ParseSlotId(SlotId(number)).value(), number);
  }
  EXPECT_FALSE(ParseSlotId(SlotId(kMaxSlots)));
}

TEST(SlotsTest, PreferenceIsNeverMoreThanThereIs) {
  EXPECT_THAT(PreferSlots({"krux-1"}, {}, 5), ElementsAre("krux-1"));
  EXPECT_THAT(PreferSlots({"krux-1"}, {"krux-1"}, 2), ElementsAre("krux-1"));
  EXPECT_THAT(PreferSlots({"krux-1"}, {}, 0), IsEmpty());
  EXPECT_THAT(PreferSlots({"krux-1"}, {}, -1), IsEmpty());
}

TEST(InventoryTest, SlotsAreUnhealthyOnlyWhenNoCardWorks) {
  Inventory inventory;
  EXPECT_EQ(SlotsOf(inventory, 16), (Slots{0, false}));
  inventory.gpus = {{"a", "", 1, false, "lost"}, {"b", "", 1, true, ""}};
  EXPECT_EQ(SlotsOf(inventory, 16), (Slots{32, true}));
  inventory.gpus[1].healthy = false;
  EXPECT_EQ(SlotsOf(inventory, 16), (Slots{32, false}));
}

TEST(HealthTrackerTest, FirstSightIsHealthy) {
  HealthTracker tracker(30 * kSecond);
  EXPECT_TRUE(tracker.Observe({{Card("a"), Card("b")}, {}, ""}, 0));
  EXPECT_THAT(tracker.inventory().gpus, ElementsAre(Gpu{"a", "NVIDIA H200", 143771, true, ""},
                                                    Gpu{"b", "NVIDIA H200", 143771, true, ""}));
  EXPECT_FALSE(tracker.Observe({{Card("a"), Card("b")}, {}, ""}, kSecond));
}

TEST(HealthTrackerTest, ACardOfTheRecordGetsItsPlaceFromTheDriver) {
  HealthTracker tracker(30 * kSecond, {{Gpu{"a", "NVIDIA H200", 143771, true, ""}}, true});
  gpu::Device card = Card("a");
  card.numa_node = 1;
  card.linked_to = {"b"};
  EXPECT_TRUE(tracker.Observe({{card, Card("b")}, {}, ""}, 0));
  EXPECT_EQ(tracker.inventory().gpus[0].numa_node, 1);
  EXPECT_THAT(tracker.inventory().gpus[0].linked_to, ElementsAre("b"));
  card.linked_to.clear();
  EXPECT_TRUE(tracker.Observe({{card, Card("b")}, {}, ""}, kSecond));
}

TEST(HealthTrackerTest, AFaultCountsAtOnceAndEndsAfterTheQuietTime) {
  HealthTracker tracker(30 * kSecond);
  tracker.Observe({{Card("a")}, {}, ""}, 0);
  EXPECT_TRUE(tracker.Observe({{Card("a")}, {{"a", "GPU is lost"}}, ""}, kSecond));
  EXPECT_FALSE(tracker.inventory().gpus[0].healthy);
  EXPECT_EQ(tracker.inventory().gpus[0].reason, "GPU is lost");
  EXPECT_FALSE(tracker.Observe({{Card("a")}, {}, ""}, 30 * kSecond));
  tracker.Observe({{Card("a")}, {{"a", "GPU is lost"}}, ""}, 30 * kSecond);  // again: count anew
  EXPECT_FALSE(tracker.Observe({{Card("a")}, {}, ""}, 59 * kSecond));
  EXPECT_FALSE(tracker.inventory().gpus[0].healthy);
  EXPECT_TRUE(tracker.Observe({{Card("a")}, {}, ""}, 60 * kSecond));
  EXPECT_EQ(tracker.inventory().gpus[0], (Gpu{"a", "NVIDIA H200", 143771, true, ""}));
}

TEST(HealthTrackerTest, ACardThatVanishesStaysAsUnhealthy) {
  HealthTracker tracker(0);
  tracker.Observe({{Card("a"), Card("b")}, {}, ""}, 0);
  EXPECT_TRUE(tracker.Observe({{Card("b")}, {}, ""}, 1));
  EXPECT_EQ(tracker.inventory().gpus.size(), 2U);
  EXPECT_FALSE(tracker.inventory().gpus[0].healthy);
  EXPECT_TRUE(tracker.inventory().gpus[1].healthy);
}

TEST(HealthTrackerTest, ADriverThatDoesNotAnswerIsAFaultOfAllCards) {
  HealthTracker tracker(0);
  EXPECT_FALSE(tracker.Observe({{}, {}, "driver not loaded"}, 0));
  EXPECT_TRUE(tracker.inventory().gpus.empty());
  tracker.Observe({{Card("a")}, {}, ""}, 1);
  EXPECT_TRUE(tracker.Observe({{}, {}, "driver not loaded"}, 2));
  EXPECT_EQ(tracker.inventory().gpus[0].reason, "driver not loaded");
}

KnownCards Known(bool same_boot) {
  return {{{"a", "NVIDIA H200", 143771, true, ""}, {"b", "NVIDIA H200", 143771, true, ""}},
          same_boot};
}

TEST(HealthTrackerTest, SlotsOfTheRecordAreOfferedBeforeTheDriverAnswers) {
  HealthTracker tracker(30 * kSecond, Known(false));
  EXPECT_EQ(SlotsOf(tracker.inventory(), 16), (Slots{32, true}));
  EXPECT_FALSE(tracker.inventory().gpus[0].healthy);  // the scheduler is promised nothing
  tracker.Observe({{}, {}, "driver not loaded"}, kSecond);
  EXPECT_EQ(SlotsOf(tracker.inventory(), 16), (Slots{32, true}));
  tracker.Observe({{}, {}, "driver not loaded"}, kSecond + kExpectationLimit);
  EXPECT_EQ(SlotsOf(tracker.inventory(), 16), (Slots{32, false}));
}

TEST(HealthTrackerTest, CardsOfTheRecordAreHealthyAtFirstSight) {
  HealthTracker tracker(30 * kSecond, Known(false));
  tracker.Observe({{}, {}, "driver not loaded"}, kSecond);
  tracker.Observe({{Card("b"), Card("a")}, {{"b", "GPU is lost"}}, ""}, 2 * kSecond);
  EXPECT_THAT(tracker.inventory().gpus,
              ElementsAre(Gpu{"a", "NVIDIA H200", 143771, true, ""},
                          Gpu{"b", "NVIDIA H200", 143771, false, "GPU is lost"}));
}

TEST(HealthTrackerTest, ACardOfTheRecordThatIsAbsentWasTakenOutOrIsLost) {
  HealthTracker after_reboot(30 * kSecond, Known(false));
  after_reboot.Observe({{Card("b")}, {}, ""}, 0);
  ASSERT_EQ(after_reboot.inventory().gpus.size(), 1U);
  EXPECT_EQ(after_reboot.inventory().gpus[0].uuid, "b");
  HealthTracker same_boot(30 * kSecond, Known(true));
  same_boot.Observe({{Card("b")}, {}, ""}, 0);
  ASSERT_EQ(same_boot.inventory().gpus.size(), 2U);
  EXPECT_FALSE(same_boot.inventory().gpus[0].healthy);
}

}  // namespace
}  // namespace krux::device_plugin
