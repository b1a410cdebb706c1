// Many threads of one process that charge, note and return, while a restarted agent gives the
// process one new account after another. For ThreadSanitizer, and for what must be left at the end.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "limiter/memory/allocations.h"
#include "limiter/memory/contexts.h"
#include "limiter/memory/physical_handles.h"
#include "limiter/testing/memory_pages.h"

namespace krux::limiter {
namespace {

constexpr uint64_t kLimit = 4096 * kMebibyte;
constexpr uint64_t kContext = 520 * kMebibyte;
constexpr int kThreads = 4;
constexpr int kRounds = 4000;

class ManyThreads : public ::testing::Test {
 protected:
  ManyThreads() {
    Attach(0);
    EXPECT_TRUE(account_.ChargeContext(0, kContext));
  }

  // To the account of an agent that was started again; its pages are fresh.
  void Attach(int which) {
    account_.Attach(pages_[0].limits.get(), pages_[which].account.get(), 1, 1);
  }

  void Work(uint64_t number) {
    std::mt19937_64 random(number);
    for (uint64_t i = 1; i <= kRounds; ++i) {
      const uint64_t handle = number << 32 | i << 8;
      const uint64_t bytes = (1 + random() % 8) * kSlabBytes;
      switch (random() % 4) {
        case 0:
          Linear(handle, bytes);
          break;
        case 1:
          if (managed_.Grow(0, bytes)) managed_.Shrink(0, bytes);
          break;
        case 2:
          if (account_.ChargeContext(0, bytes)) account_.ReturnContextBytes(0, bytes);
          break;
        default:
          Physical(handle, bytes);
      }
      EXPECT_LE(account_.Used(0), account_.Limit(0));
    }
  }

  void Linear(uint64_t handle, uint64_t bytes) {
    if (!account_.Charge(0, bytes)) return;
    ASSERT_TRUE(allocations_.Add(handle, {bytes, 1, 0}));
    Allocations::Record record{};
    ASSERT_TRUE(allocations_.TakeOut(handle, &record));
    allocations_.Return(handle, record);
  }
  void Physical(uint64_t handle, uint64_t bytes) {
    if (!account_.Charge(0, bytes)) return;
    ASSERT_TRUE(physical_.Add(handle, 0, bytes));
    physical_.OnMap(handle, bytes, handle);
    physical_.OnRelease(handle);
    physical_.OnUnmap(handle, bytes);
  }

  MemoryPages pages_[2] = {MemoryPages(kLimit), MemoryPages(kLimit)};
  Account account_;
  ManagedMemory managed_{&account_};
  Allocations allocations_{&account_, &managed_};
  PhysicalHandles physical_{&account_};
};

TEST_F(ManyThreads, NothingIsLostWhenTheAccountIsReplaced) {
  std::atomic<int> working{kThreads};
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= kThreads; ++i) {
    threads.emplace_back([this, i, &working] {
      Work(i);
      --working;
    });
  }
  int which = 0;
  while (working > 0) {
    which = 1 - which;
    pages_[which].account->gpus[0].used_bytes = 0;  // of its time before, by somebody else
    Attach(which);
  }
  for (std::thread& thread : threads) thread.join();
  const ProcessSlot::PerGpu& mine = pages_[which].account->processes[1].gpus[0];
  const uint64_t rest = mine.unlisted_bytes;
  EXPECT_EQ(rest, kManagedStepBytes - kSlabBytes);
  EXPECT_EQ(mine.context_bytes, kContext);
  EXPECT_EQ(mine.charged_bytes, kContext + rest);
  EXPECT_EQ(pages_[which].account->gpus[0].used_bytes, kContext + rest);
}

}  // namespace
}  // namespace krux::limiter
