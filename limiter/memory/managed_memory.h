// Managed memory of this process, by what it can take on the card: the driver takes it in steps of
// 128 MiB for all managed memory of a process together (H200, driver 580: the first 2 MiB took
// 128), and a step stays while anything is in it. So the charge follows the sum up in whole steps;
// down it follows allocations of a step and more, and ends with the last one.
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

  // False, and nothing changed, when a step more that is needed does not fit.
  bool Grow(uint32_t gpu, uint64_t bytes) {
    if (bytes >= kTooLarge) return false;
    const LockGuard guard(lock_);
    Use& use = uses_[gpu];
    const uint64_t charged = RoundUp(use.bytes + bytes, kManagedStepBytes);
    if (charged > use.charged) {
      const uint64_t growth = charged - use.charged;
      if (!account_->Charge(gpu, growth)) return false;
      account_->NoteUnlisted(gpu, growth);
      use.charged = charged;
    }
    use.bytes += bytes;
    return true;
  }

  void Shrink(uint32_t gpu, uint64_t bytes) {
    const LockGuard guard(lock_);
    Use& use = uses_[gpu];
    use.bytes -= bytes < use.bytes ? bytes : use.bytes;
    if (use.bytes != 0 && bytes < kManagedStepBytes) return;
    const uint64_t charged = RoundUp(use.bytes, kManagedStepBytes);
    if (charged >= use.charged) return;
    account_->ForgetUnlisted(gpu, use.charged - charged);
    account_->Return(gpu, use.charged - charged);
    use.charged = charged;
  }

  void ForgetAfterFork() {
    lock_.Forget();
    for (Use& use : uses_) use = Use{};
  }

 private:
  struct Use {
    uint64_t bytes = 0;
    uint64_t charged = 0;
  };

  Account* account_;
  Lock lock_;
  Use uses_[kMaxPageGpus] = {};
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_MANAGED_MEMORY_H_
