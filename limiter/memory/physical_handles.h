// Memory that was made with cuMemCreate: charged once, returned when the last reference is released
// and the last mapping is gone, in whichever order (a mapping alone keeps the memory).
// Handles that were imported, or whose memory is the host's, are not in it and pass through.
//
// Thread-safe. Calls no driver.
#ifndef KRUX_LIMITER_MEMORY_PHYSICAL_HANDLES_H_
#define KRUX_LIMITER_MEMORY_PHYSICAL_HANDLES_H_

#include <cstdint>

#include "limiter/life/lock.h"
#include "limiter/life/table.h"
#include "limiter/memory/account.h"

namespace krux::limiter {

class PhysicalHandles {
 public:
  explicit constexpr PhysicalHandles(Account* account) : account_(account) {}

  // A new handle whose `bytes` on `gpu` are charged. False: no memory for the note.
  bool Add(uint64_t handle, uint32_t gpu, uint64_t bytes);
  void OnRelease(uint64_t handle);
  void OnMap(uint64_t address, uint64_t bytes, uint64_t handle);
  // All mappings that begin in [address, address + bytes).
  void OnUnmap(uint64_t address, uint64_t bytes);
  // cuMemRetainAllocationHandle gave `handle` for the memory at `address`.
  void OnRetain(uint64_t handle, uint64_t address);

  void ForgetAfterFork();

 private:
  struct Memory {
    uint64_t bytes;
    uint32_t gpu;
    uint32_t references;
    uint32_t mappings;
  };
  struct Mapping {
    uint64_t bytes;
    uint64_t memory;  // key of Memory
  };

  void ReturnIfUnusedLocked(uint64_t key);

  Account* account_;
  Lock lock_;
  Table<Memory> memories_;   // by a number of our own
  Table<uint64_t> handles_;  // handle -> that number; several handles can name one memory
  Table<Mapping> mappings_;  // by address
  uint64_t last_key_ = 0;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_PHYSICAL_HANDLES_H_
