// Managed memory of this process, by the most that it can hold on the card.
//
// The driver takes it in steps of 128 MiB for all of a process, and what is freed goes back to the
// card by itself, without the rest of its step (H200, driver 580: the first 2, 64, 200 MiB took
// 128, 128, 256; freeing them gave back 2, 64, 200). So as long as nothing was freed the process
// holds its sum in whole steps. After a free it may hold its sum and a rest of less than one step,
// and whether the freed memory had been on the card at all is not known: then that is the charge.
// The rest stays charged until the process ends.
//
// The driver lists none of it under the process (Account::NoteUnlisted).
// Thread-safe. Calls no driver.
#ifndef KRUX_LIMITER_MEMORY_MANAGED_MEMORY_H_
#define KRUX_LIMITER_MEMORY_MANAGED_MEMORY_H_

#include <cstdint>

#include "limiter/life/lock.h"
#include "limiter/memory/account.h"
#include "limiter/memory/sizes.h"

namespace krux::limiter {

class ManagedMemory {
 public:
  explicit constexpr ManagedMemory(Account* account) : account_(account) {}

  // False, and nothing changed, when what is needed does not fit.
  bool Grow(uint32_t gpu, uint64_t bytes) {
    if (bytes >= kTooLarge) return false;
    const LockGuard guard(lock_);
    Use& use = uses_[gpu];
    const uint64_t most = MostHeld(use.bytes + bytes, use.has_freed);
    if (most > use.charged) {
      const uint64_t growth = most - use.charged;
      // Noted first and forgotten last: between the two the agent may look, and what it takes for
      // listed memory and finds nowhere it would take off the context.
      account_->NoteUnlisted(gpu, growth);
      if (!account_->Charge(gpu, growth)) {
        account_->ForgetUnlisted(gpu, growth);
        return false;
      }
      use.charged = most;
    }
    use.bytes += bytes;
    return true;
  }

  // Memory that Grow counted was given back to the driver.
  void Shrink(uint32_t gpu, uint64_t bytes) {
    const LockGuard guard(lock_);
    uses_[gpu].has_freed = true;
    LowerLocked(gpu, bytes);
  }

  // Grow counted it, and the driver never had it.
  void Undo(uint32_t gpu, uint64_t bytes) {
    const LockGuard guard(lock_);
    LowerLocked(gpu, bytes);
  }

  void ForgetAfterFork() {
    lock_.Forget();
    for (Use& use : uses_) use = Use{};
  }

 private:
  struct Use {
    uint64_t bytes = 0;
    uint64_t charged = 0;
    bool has_freed = false;
  };

  static constexpr uint64_t kMostRest = kManagedStepBytes - kSlabBytes;

  static uint64_t MostHeld(uint64_t bytes, bool has_freed) {
    return has_freed ? bytes + kMostRest : RoundUp(bytes, kManagedStepBytes);
  }

  void LowerLocked(uint32_t gpu, uint64_t bytes) {
    Use& use = uses_[gpu];
    use.bytes -= bytes < use.bytes ? bytes : use.bytes;
    const uint64_t most = MostHeld(use.bytes, use.has_freed);
    if (most >= use.charged) return;
    account_->Return(gpu, use.charged - most);
    account_->ForgetUnlisted(gpu, use.charged - most);
    use.charged = most;
  }

  Account* account_;
  Lock lock_;
  Use uses_[kMaxPageGpus] = {};
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_MANAGED_MEMORY_H_
