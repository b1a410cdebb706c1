#include "limiter/memory/account.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>
#include <vector>

#include "limiter/memory/allocations.h"
#include "limiter/memory/physical_handles.h"
#include "limiter/testing/memory_pages.h"

namespace krux::limiter {
namespace {

constexpr uint64_t kLimit = 1000 * kMebibyte;

class AccountTest : public ::testing::Test {
 protected:
  AccountTest() { account_.Attach(pages_.limits.get(), pages_.account.get(), 0, 1); }
  uint64_t used() { return pages_.account->gpus[0].used_bytes; }
  uint64_t charged(uint32_t slot = 0) {
    return pages_.account->processes[slot].gpus[0].charged_bytes;
  }

  MemoryPages pages_{kLimit};
  Account account_;
};

TEST_F(AccountTest, ChargesUpToTheLimitExactly) {
  EXPECT_TRUE(account_.Charge(0, kLimit - 1));
  EXPECT_FALSE(account_.Charge(0, 2));
  EXPECT_TRUE(account_.Charge(0, 1));
  EXPECT_FALSE(account_.Charge(0, 1));
  EXPECT_EQ(used(), kLimit);
  EXPECT_EQ(account_.Free(0), 0U);
  EXPECT_EQ(pages_.account->processes[0].gpus[0].refused, 2U);
  account_.Return(0, kLimit);
  EXPECT_EQ(used(), 0U);
}

TEST_F(AccountTest, RefusesSizesThatWouldWrap) {
  ASSERT_TRUE(account_.Charge(0, 100));
  EXPECT_FALSE(account_.Charge(0, UINT64_MAX));
  EXPECT_FALSE(account_.Charge(0, UINT64_MAX - 50));
  EXPECT_EQ(used(), 100U);
}

TEST_F(AccountTest, FollowsALimitThatChanges) {
  ASSERT_TRUE(account_.Charge(0, 500 * kMebibyte));
  pages_.limits->gpus[0].memory_limit_bytes = 100 * kMebibyte;
  EXPECT_FALSE(account_.Charge(0, 1));
  EXPECT_EQ(account_.Free(0), 0U);
}

TEST_F(AccountTest, NeverGoesBelowZero) {
  ASSERT_TRUE(account_.Charge(0, 10));
  account_.Return(0, 1000);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(charged(), 0U);
}

TEST_F(AccountTest, ReturnsAContextAsTheAgentSettledIt) {
  ASSERT_TRUE(account_.ChargeContext(0, 520 * kMebibyte));
  ASSERT_TRUE(account_.Charge(0, 7));
  ProcessSlot::PerGpu& mine = pages_.account->processes[0].gpus[0];
  mine.context_bytes -= 2 * kMebibyte;  // the card says 518
  mine.charged_bytes -= 2 * kMebibyte;
  pages_.account->gpus[0].used_bytes -= 2 * kMebibyte;
  account_.ReturnContext(0, 1);
  EXPECT_EQ(used(), 7U);
  EXPECT_EQ(mine.context_bytes, 0U);
}

TEST_F(AccountTest, MovesItsChargesToANewPageAndToANewSlot) {
  ASSERT_TRUE(account_.Charge(0, 300));
  SharedPage<AccountPage> fresh;
  fresh->gpus[0].used_bytes = 50;  // of another process
  account_.Attach(pages_.limits.get(), fresh.get(), 3, 1);
  EXPECT_EQ(fresh->gpus[0].used_bytes, 350U);
  EXPECT_EQ(fresh->processes[3].gpus[0].charged_bytes, 300U);
  account_.Attach(pages_.limits.get(), fresh.get(), 5, 1);
  EXPECT_EQ(fresh->gpus[0].used_bytes, 350U);
  EXPECT_EQ(fresh->processes[3].gpus[0].charged_bytes, 0U);
  account_.Return(0, 300);
  EXPECT_EQ(fresh->gpus[0].used_bytes, 50U);
}

TEST_F(AccountTest, ThreadsNeverPassTheLimitAndEndEven) {
  std::vector<std::thread> threads;
  std::atomic<bool> passed{false};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 20000; ++i) {
        const uint64_t bytes = random() % (400 * kMebibyte) + 1;
        if (!account_.Charge(0, bytes)) continue;
        if (used() > kLimit) passed = true;
        account_.Return(0, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(passed);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(charged(), 0U);
}

// What an agent does for a slot whose process was killed, by the rules of pages.h.
void Repair(AccountPage& page, uint32_t dead, uint32_t slots) {
  ProcessSlot::PerGpu& slot = page.processes[dead].gpus[0];
  slot.charged_bytes = 0;
  slot.pending_bytes = 0;
  for (;;) {
    const uint64_t used = page.gpus[0].used_bytes;
    uint64_t sum = 0;
    bool pending = false;
    for (uint32_t i = 0; i < slots; ++i) {
      pending = pending || page.processes[i].gpus[0].pending_bytes != 0;
      sum += page.processes[i].gpus[0].charged_bytes;
    }
    uint64_t expected = used;
    if (!pending && page.gpus[0].used_bytes.compare_exchange_strong(expected, sum)) return;
  }
}

TEST(AccountKilledAtRandomPoints, IsRepairedWhileAnotherProcessGoesOn) {
  MemoryPages pages(kLimit);
  constexpr uint32_t kSlots = 2;
  std::mt19937 random(11);
  Account survivor;
  survivor.Attach(pages.limits.get(), pages.account.get(), 0, 1);
  for (int round = 0; round < 60; ++round) {
    const pid_t victim = fork();
    if (victim == 0) {
      Account mine;
      mine.Attach(pages.limits.get(), pages.account.get(), 1, 1);
      for (uint64_t i = 0;; ++i) {
        if (mine.Charge(0, i % 97 + 1) && i % 3 != 0) mine.Return(0, i % 97 + 1);
      }
    }
    const uint32_t steps = static_cast<uint32_t>(random() % 20000);
    for (uint32_t i = 0; i < steps; ++i) {
      if (survivor.Charge(0, 31)) survivor.Return(0, 31);
    }
    kill(victim, SIGKILL);
    waitpid(victim, nullptr, 0);
    Repair(*pages.account.get(), 1, kSlots);
    ASSERT_EQ(pages.account->gpus[0].used_bytes, 0U) << round;
  }
}

class AllocationsTest : public AccountTest {
 protected:
  bool AddSmall(uint64_t address, uint64_t bytes) {
    const bool charged = account_.Charge(0, kSlabBytes);
    return allocations_.AddSmall(address, {bytes, 1, 0, true}, charged);
  }
  void Free(uint64_t address) {
    Allocations::Record record{};
    ASSERT_TRUE(allocations_.TakeOut(address, &record));
    allocations_.Return(address, record);
  }

  ManagedMemory managed_{&account_};
  Allocations allocations_{&account_, &managed_};
};

TEST_F(AllocationsTest, HoldASlabUntilItsLastBlockIsGone) {
  const uint64_t slab = 100 * kSlabBytes;
  ASSERT_TRUE(AddSmall(slab, kMebibyte));
  ASSERT_TRUE(AddSmall(slab + kMebibyte, kMebibyte));
  EXPECT_EQ(used(), kSlabBytes);
  ASSERT_TRUE(AddSmall(slab + kSlabBytes, 1));
  EXPECT_EQ(used(), 2 * kSlabBytes);
  Free(slab);
  EXPECT_EQ(used(), 2 * kSlabBytes);
  Free(slab + kMebibyte);
  EXPECT_EQ(used(), kSlabBytes);
  Free(slab + kSlabBytes);
  EXPECT_EQ(used(), 0U);
}

TEST_F(AllocationsTest, KnowWhetherASmallBlockMayFitWithoutANewSlab) {
  EXPECT_FALSE(allocations_.SmallMayFit(1, 0));
  ASSERT_TRUE(AddSmall(kSlabBytes, kMebibyte));
  EXPECT_TRUE(allocations_.SmallMayFit(kMebibyte, 0));
  ASSERT_TRUE(AddSmall(kSlabBytes + kMebibyte, kMebibyte));
  EXPECT_FALSE(allocations_.SmallMayFit(1, 0));
}

TEST_F(AllocationsTest, GoWithTheirContext) {
  ASSERT_TRUE(account_.Charge(0, 10 * kMebibyte));
  ASSERT_TRUE(allocations_.Add(0x1000, {10 * kMebibyte, 1, 0, false}));
  ASSERT_TRUE(account_.Charge(0, 6 * kMebibyte));
  ASSERT_TRUE(allocations_.Add(0x2000, {6 * kMebibyte, 2, 0, false}));
  allocations_.ReturnAllOf(1);
  EXPECT_EQ(used(), 6 * kMebibyte);
  Allocations::Record record{};
  EXPECT_FALSE(allocations_.TakeOut(0x1000, &record));
  EXPECT_TRUE(allocations_.TakeOut(0x2000, &record));
}

TEST_F(AccountTest, PhysicalHandlesAreReturnedWhenReleasedAndUnmapped) {
  PhysicalHandles handles(&account_);
  ASSERT_TRUE(account_.Charge(0, 64));
  ASSERT_TRUE(handles.Add(7, 0, 64));
  handles.OnMap(0x10000, 64, 7);
  handles.OnRetain(8, 0x10010);  // another handle for the same memory
  handles.OnRelease(7);
  handles.OnUnmap(0x10000, 64);
  EXPECT_EQ(used(), 64U);
  handles.OnRelease(8);
  EXPECT_EQ(used(), 0U);
  handles.OnRelease(99);  // somebody else's
  EXPECT_EQ(used(), 0U);
}

}  // namespace
}  // namespace krux::limiter
