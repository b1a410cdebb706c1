// What this process has allocated, by pointer or handle, with the bytes that were charged for it:
// linear memory, managed memory, arrays. The map between the driver's objects and the account.
//
// How entries use it: Take/GiveBack around the driver's allocation, TakeOut/PutBack/Return around
// its free. Pointers that are not in it are somebody else's and pass through.
//
// Thread-safe. Calls no driver.
#ifndef KRUX_LIMITER_MEMORY_ALLOCATIONS_H_
#define KRUX_LIMITER_MEMORY_ALLOCATIONS_H_

#include <cstdint>

#include "limiter/life/lock.h"
#include "limiter/life/table.h"
#include "limiter/memory/account.h"
#include "limiter/memory/managed_memory.h"
#include "limiter/memory/slabs.h"

namespace krux::limiter {

class Allocations {
 public:
  struct Record {
    uint64_t bytes;    // as charged; for a small block as asked
    uint64_t context;  // whose end frees it; 0: none's
    uint32_t gpu;
    bool in_slab = false;
    bool unlisted = false;  // as Account::NoteUnlisted
    bool managed = false;   // charged by ManagedMemory
  };

  constexpr Allocations(Account* account, ManagedMemory* managed)
      : account_(account), managed_(managed) {}

  // Notes memory that is charged with record.bytes. False when there is no memory for the note:
  // the caller frees the allocation and returns its charge.
  bool Add(uint64_t handle, const Record& record);

  // A small block. `charged` says whether a slab was charged for it ahead of the call: that is
  // returned when the block lies in a slab that is charged already, and charged now when it was
  // not. False when there is no room for a new slab: the caller frees the block.
  bool AddSmall(uint64_t address, const Record& record, bool charged);
  bool SmallMayFit(uint64_t bytes, uint32_t gpu);

  // Around a free: out before the driver's call (the address can be reused at once), back when it
  // failed, returned when it succeeded.
  bool TakeOut(uint64_t handle, Record* record);
  void PutBack(uint64_t handle, const Record& record);
  void Return(uint64_t handle, const Record& record);

  // The context is gone and its memory with it.
  void ReturnAllOf(uint64_t context);

  size_t size();
  void ForgetAfterFork();

 private:
  void ReturnLocked(uint64_t handle, const Record& record);

  Account* account_;
  ManagedMemory* managed_;
  Lock lock_;
  Table<Record> records_;
  Slabs slabs_;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_ALLOCATIONS_H_
