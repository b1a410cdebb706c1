// A small mutex on a futex, for locks inside one process. It needs no libpthread and has no state
// but its word, so a fork child can drop it (memory of the child is private).
//
// Thread rule: as any mutex; not recursive. Sections under it are short and call no driver unless
// its owner's header says so.
#ifndef KRUX_LIMITER_LIFE_LOCK_H_
#define KRUX_LIMITER_LIFE_LOCK_H_

#include <atomic>
#include <cstdint>

#include "limiter/life/futex.h"

namespace krux::limiter {

class Lock {
 public:
  void Acquire() {
    uint32_t expected = kFree;
    if (word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) return;
    while (word_.exchange(kContended, std::memory_order_acquire) != kFree) {
      FutexWait(&word_, kContended, kForever, FutexScope::kProcess);
    }
  }
  bool TryAcquire() {
    uint32_t expected = kFree;
    return word_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire);
  }
  void Release() {
    if (word_.exchange(kFree, std::memory_order_release) == kContended) FutexWakeOne(&word_);
  }
  // In a fork child, where the holder does not exist.
  void Forget() { word_.store(kFree, std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kContended = 2;
  std::atomic<uint32_t> word_{kFree};
};

class LockGuard {
 public:
  explicit LockGuard(Lock& lock) : lock_(lock) { lock_.Acquire(); }
  ~LockGuard() { lock_.Release(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_LOCK_H_
