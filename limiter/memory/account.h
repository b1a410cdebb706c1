// The account of the container on each of its GPUs, as this process charges it (protocol/pages.h
// has the layout and the protocol that survives SIGKILL at every store).
//
// Charge before the driver call, Return when the driver refused or when memory is freed. All bytes
// are true bytes (sizes.h). Values in the page are a tenant's and may be garbage: they can make
// this container's own allocations fail, nothing else.
//
// Thread-safe. Sections under its locks call nothing but atomics.
#ifndef KRUX_LIMITER_MEMORY_ACCOUNT_H_
#define KRUX_LIMITER_MEMORY_ACCOUNT_H_

#include <atomic>
#include <cstdint>

#include "limiter/life/lock.h"
#include "protocol/pages.h"

namespace krux::limiter {

class Account {
 public:
  // Starts, or moves everything that this process has charged to another page or slot (the agent
  // gave a new account). REQUIRES: slot < kMaxPageProcesses; the pages stay mapped for ever.
  void Attach(const LimitsPage* limits, AccountPage* page, uint32_t slot, uint32_t gpu_count);
  bool attached() const { return page_.load(std::memory_order_acquire) != nullptr; }

  // False, and nothing changed but a counter, when used + bytes would pass the limit.
  bool Charge(uint32_t gpu, uint64_t bytes);
  void Return(uint32_t gpu, uint64_t bytes);
  // From a charge of `charged` to `actual` bytes; when that is more and does not fit, false and
  // nothing changed.
  bool Settle(uint32_t gpu, uint64_t charged, uint64_t actual);

  // Memory that is there already, whether it fits or not: the driver took it inside another call.
  void ChargeAnyway(uint32_t gpu, uint64_t bytes);
  // Of what is charged: the driver lists it under no process (managed memory).
  void NoteUnlisted(uint32_t gpu, uint64_t bytes);
  void ForgetUnlisted(uint32_t gpu, uint64_t bytes);

  // Contexts: as above, and noted as such, so that the agent can settle them.
  bool ChargeContext(uint32_t gpu, uint64_t bytes);
  // A context that was not made after all.
  void ReturnContextBytes(uint32_t gpu, uint64_t bytes);
  // Returns the part of the contexts that one of `contexts` living ones takes, whatever the agent
  // has settled it to.
  void ReturnContext(uint32_t gpu, uint32_t contexts);

  // Bytes that stay charged until the agent finds by the driver's figures that they are gone.
  void GiveToAgent(uint32_t gpu, uint64_t bytes);

  uint64_t Limit(uint32_t gpu) const;
  uint64_t Used(uint32_t gpu) const;
  uint64_t Free(uint32_t gpu) const;

  // This process's words for the gate; nullptr before Attach.
  ProcessSlot::PerGpu* Mine(uint32_t gpu);
  // Tells the agent when to look for the end of the work of an ended lease. REQUIRES: attached.
  void HintDrain(uint64_t tsc);
  uint32_t slot() const { return slot_.load(std::memory_order_relaxed); }
  const AccountPage* page() const { return page_.load(std::memory_order_acquire); }

  void ForgetAfterFork();

 private:
  bool ChargeLocked(uint32_t gpu, uint64_t bytes);
  void ReturnLocked(uint32_t gpu, uint64_t bytes);
  void MoveLocked(AccountPage* page, ProcessSlot::PerGpu* from, ProcessSlot::PerGpu* to,
                  uint32_t gpu);

  // One GPU each: `pending`, and that nothing is charged or noted while an account is left behind.
  Lock locks_[kMaxPageGpus];
  std::atomic<AccountPage*> page_{nullptr};
  std::atomic<ProcessSlot*> mine_{nullptr};
  std::atomic<const LimitsPage*> limits_{nullptr};
  std::atomic<uint32_t> slot_{0};
  uint32_t gpu_count_ = 0;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_ACCOUNT_H_
