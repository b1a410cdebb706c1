#include "agent/pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "common/units.h"

namespace krux::agent {
namespace {

Account MakeAccount() {
  auto account = Account::Make(1);
  EXPECT_TRUE(account);
  return std::move(*account);
}

// The limiter's side of a charge and a return, cut off after `steps` stores, as a kill does it.
void ChargeCutOff(AccountPage* page, uint32_t slot, uint64_t bytes, int steps) {
  ProcessSlot::PerGpu& mine = page->processes[slot].gpus[0];
  if (steps-- == 0) return;
  mine.pending_bytes.store(bytes);
  if (steps-- == 0) return;
  page->gpus[0].used_bytes.fetch_add(bytes);
  if (steps-- == 0) return;
  mine.charged_bytes.fetch_add(bytes);
  if (steps-- == 0) return;
  mine.pending_bytes.store(0);
}

void ReturnCutOff(AccountPage* page, uint32_t slot, uint64_t bytes, int steps) {
  ProcessSlot::PerGpu& mine = page->processes[slot].gpus[0];
  if (steps-- == 0) return;
  mine.pending_bytes.store(bytes);
  if (steps-- == 0) return;
  mine.charged_bytes.fetch_sub(bytes);
  if (steps-- == 0) return;
  page->gpus[0].used_bytes.fetch_sub(bytes);
  if (steps-- == 0) return;
  mine.pending_bytes.store(0);
}

TEST(AccountTest, KillAtAnyStoreOfAChargeLeavesOnlyWhatOthersHold) {
  for (int steps = 0; steps <= 4; ++steps) {
    Account account = MakeAccount();
    account.ClaimSlot(0, 10);
    account.ClaimSlot(1, 11);
    ChargeCutOff(account.page(), 0, 100, 4);
    ChargeCutOff(account.page(), 1, 30, 4);
    ChargeCutOff(account.page(), 1, 7, steps);
    ASSERT_TRUE(account.CreditSlot(1));
    EXPECT_EQ(account.Used(0), 100u) << "killed after " << steps << " stores";
    EXPECT_EQ(account.page()->processes[1].in_use.load(), 0u);
  }
}

TEST(AccountTest, KillAtAnyStoreOfAReturnLeavesOnlyWhatOthersHold) {
  for (int steps = 0; steps <= 4; ++steps) {
    Account account = MakeAccount();
    account.ClaimSlot(0, 10);
    account.ClaimSlot(1, 11);
    ChargeCutOff(account.page(), 0, 100, 4);
    ChargeCutOff(account.page(), 1, 30, 4);
    ReturnCutOff(account.page(), 1, 20, steps);
    ASSERT_TRUE(account.CreditSlot(1));
    EXPECT_EQ(account.Used(0), 100u) << "killed after " << steps << " stores";
  }
}

TEST(AccountTest, RepairWaitsForALivingProcessInTheMiddleOfACharge) {
  Account account = MakeAccount();
  account.ClaimSlot(0, 10);
  account.ClaimSlot(1, 11);
  ChargeCutOff(account.page(), 0, 100, 2);  // alive, between the two words
  ChargeCutOff(account.page(), 1, 30, 2);   // dead
  EXPECT_FALSE(account.CreditSlot(1));
  account.page()->processes[0].gpus[0].charged_bytes.fetch_add(100);
  account.page()->processes[0].gpus[0].pending_bytes.store(0);
  EXPECT_TRUE(account.CreditSlot(1));
  EXPECT_EQ(account.Used(0), 100u);
}

TEST(AccountTest, TheDeadDoNotWaitForEachOther) {
  Account account = MakeAccount();
  account.ClaimSlot(0, 10);
  ChargeCutOff(account.page(), 0, 100, 4);
  for (const uint32_t slot : {1U, 2U}) {
    account.ClaimSlot(slot, 11);
    ChargeCutOff(account.page(), slot, 30, 2);
  }
  // The first may have to wait for the second, which was not known to be dead.
  const bool first = account.CreditSlot(1);
  EXPECT_TRUE(account.CreditSlot(2));
  EXPECT_TRUE(first || account.CreditSlot(1));
  EXPECT_EQ(account.Used(0), 100U);
}

TEST(AccountTest, GarbageOfATenantStaysItsOwn) {
  Account account = MakeAccount();
  account.ClaimSlot(3, 10);
  account.page()->processes[3].gpus[0].charged_bytes.store(UINT64_MAX);
  account.page()->gpus[0].used_bytes.store(5);
  ASSERT_TRUE(account.CreditSlot(3));
  EXPECT_EQ(account.Used(0), 0u);
}

TEST(AccountTest, ContextIsSettledToWhatTheDriverSays) {
  Account account = MakeAccount();
  account.ClaimSlot(0, 10);
  ProcessSlot::PerGpu& mine = account.page()->processes[0].gpus[0];
  ChargeCutOff(account.page(), 0, 520 * kMiB, 4);
  mine.context_bytes.store(520 * kMiB);
  auto settled = account.SettleContext(0, 0, 518 * kMiB);
  ASSERT_TRUE(settled);
  EXPECT_TRUE(settled->only_context);
  EXPECT_EQ(account.Used(0), 518 * kMiB);
  ChargeCutOff(account.page(), 0, 64 * kMiB, 4);
  settled = account.SettleContext(0, 0, 600 * kMiB);
  ASSERT_TRUE(settled);
  EXPECT_FALSE(settled->only_context);
  EXPECT_EQ(account.Used(0), 600 * kMiB);
  EXPECT_EQ(mine.context_bytes.load(), 536 * kMiB);
  mine.pending_bytes.store(1);
  EXPECT_EQ(account.SettleContext(0, 0, 0).error().code, ErrorCode::kUnavailable);
}

// The driver lists managed memory under no process: what it lists says nothing about it.
TEST(AccountTest, ManagedMemoryStaysChargedWhenAContextIsSettled) {
  Account account = MakeAccount();
  account.ClaimSlot(0, 10);
  ProcessSlot::PerGpu& mine = account.page()->processes[0].gpus[0];
  ChargeCutOff(account.page(), 0, 520 * kMiB, 4);
  mine.context_bytes.store(520 * kMiB);
  ChargeCutOff(account.page(), 0, 1024 * kMiB, 4);
  mine.unlisted_bytes.store(1024 * kMiB);
  ASSERT_TRUE(account.SettleContext(0, 0, 518 * kMiB));
  EXPECT_EQ(account.Used(0), (518 + 1024) * kMiB);
  EXPECT_EQ(account.ChargedAndListed(0, 0), 518 * kMiB);
}

TEST(AccountTest, PeriodicLooksOnlyRaise) {
  Account account = MakeAccount();
  account.ClaimSlot(0, 10);
  ChargeCutOff(account.page(), 0, 520 * kMiB, 4);
  account.page()->processes[0].gpus[0].context_bytes.store(520 * kMiB);
  ASSERT_TRUE(account.SettleContext(0, 0, 100 * kMiB, Account::Direction::kUp));
  EXPECT_EQ(account.Used(0), 520 * kMiB);
  ASSERT_TRUE(account.SettleContext(0, 0, 600 * kMiB, Account::Direction::kUp));
  EXPECT_EQ(account.Used(0), 600 * kMiB);
}

TEST(AccountTest, OnlyASealedAccountIsTakenOver) {
  const Account account = MakeAccount();
  EXPECT_TRUE(Account::Adopt(UniqueFd(dup(account.fd())), 1));
  EXPECT_EQ(Account::Adopt(UniqueFd(dup(account.fd())), 2).error().code, ErrorCode::kDataLoss);
  UniqueFd loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(loose.get(), sizeof(AccountPage)), 0);
  EXPECT_EQ(Account::Adopt(std::move(loose), 1).error().code, ErrorCode::kDataLoss);
  EXPECT_NE(ftruncate(account.fd(), 0), 0) << "a tenant could cut the page off under the agent";
}

TEST(LimitsFileTest, IsWrittenInPlaceAndKeepsTheLeaseEpoch) {
  std::string folder = "/tmp/krux-pages-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  PageGpu gpu;
  gpu.grant.memory_mib = 4096;
  gpu.grant.cores = 30;
  auto first = LimitsFile::Open(folder + "/limits", {gpu});
  ASSERT_TRUE(first);
  LimitsPage* mapped = first->page();
  EXPECT_EQ(mapped->gpus[0].memory_limit_bytes.load(), 4096 * kMiB);
  EXPECT_EQ(std::filesystem::file_size(folder + "/limits"), sizeof(LimitsPage));
  mapped->gpus[0].lease_word.store(77);
  gpu.grant.memory_mib = 8192;
  ASSERT_TRUE(LimitsFile::Open(folder + "/limits", {gpu}));
  EXPECT_EQ(mapped->gpus[0].memory_limit_bytes.load(), 8192 * kMiB);
  EXPECT_EQ(mapped->gpus[0].lease_word.load(), 77u);
  EXPECT_EQ(mapped->sequence.load() % 2, 0u);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace krux::agent
