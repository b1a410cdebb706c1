// Waiting on a word of memory. Works on read-only shared mappings too (the limits page).
// Thread-safe, no state. errno of the application is left as it was.
#ifndef KRUX_LIMITER_LIFE_FUTEX_H_
#define KRUX_LIMITER_LIFE_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace krux::limiter {

enum class FutexScope { kProcess, kShared };
constexpr int64_t kForever = -1;

// Returns when woken, when *word != expected, when a signal came, or after timeout_ns.
inline void FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns,
                      FutexScope scope) {
  const int saved = errno;
  const timespec timeout{timeout_ns / 1000000000, timeout_ns % 1000000000};
  const int operation = scope == FutexScope::kProcess ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT;
  syscall(SYS_futex, word, operation, expected, timeout_ns < 0 ? nullptr : &timeout, nullptr, 0);
  errno = saved;
}

inline void FutexWakeOne(std::atomic<uint32_t>* word) {
  const int saved = errno;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  errno = saved;
}

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_FUTEX_H_
