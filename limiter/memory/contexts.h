// Contexts of this process, for what they take on the card. What a context takes is known only
// after it was made (and differs by driver), so the amount that the limits page names is reserved
// before, and the agent settles it to the card's own figure.
//
// Local memory (a kernel's stack and spills) belongs here too: the driver takes it inside a launch,
// for every thread that the GPU can hold, and keeps it.
//
// Thread-safe. Calls no driver.
#ifndef KRUX_LIMITER_MEMORY_CONTEXTS_H_
#define KRUX_LIMITER_MEMORY_CONTEXTS_H_

#include <cstdint>

#include "limiter/life/lock.h"
#include "limiter/life/table.h"
#include "limiter/memory/account.h"

namespace krux::limiter {

class Contexts {
 public:
  explicit constexpr Contexts(Account* account) : account_(account) {}

  // Before a context is made: false = out of memory.
  bool Reserve(uint32_t gpu, uint64_t bytes) { return account_->ChargeContext(gpu, bytes); }
  void Unreserve(uint32_t gpu, uint64_t bytes) { account_->ReturnContextBytes(gpu, bytes); }

  void OnMade(uint64_t context, uint32_t gpu);
  // Returns its memory; false when the context is not known (or gone already).
  bool OnGone(uint64_t context);

  // The primary context of a device: the handle that it has while it is alive, else 0.
  uint64_t Primary(uint32_t gpu);
  void SetPrimary(uint32_t gpu, uint64_t context);

  // A kernel that needs `bytes_per_thread` is about to be launched. Charges the growth, if there is
  // any; false = it does not fit. `threads` = how many the GPU can hold.
  bool GrowLocalMemory(uint32_t gpu, uint64_t bytes_per_thread, uint64_t threads, bool* grown);

  // The driver has given local memory back, down to so much.
  void LowerLocalMemory(uint32_t gpu, uint64_t bytes_per_thread, uint64_t threads);

  // A stream is about to be made, or was destroyed. Their channels are charged by the most that
  // were there at a time. False: out of memory.
  bool AddStream(uint32_t gpu);
  void RemoveStream(uint32_t gpu);

  void ForgetAfterFork();

 private:
  // Part of every context's own memory (H200, driver 580: 8 KiB of local memory took 7 KiB more).
  static constexpr uint64_t kLocalBytesIncluded = 1024;

  Account* account_;
  Lock lock_;
  Table<uint32_t> gpu_of_;  // by context
  uint32_t living_[kMaxPageGpus] = {};
  uint64_t primary_[kMaxPageGpus] = {};
  uint64_t local_bytes_[kMaxPageGpus] = {};  // per thread, the most so far
  uint64_t streams_[kMaxPageGpus] = {};
  uint64_t most_streams_[kMaxPageGpus] = {};
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_CONTEXTS_H_
