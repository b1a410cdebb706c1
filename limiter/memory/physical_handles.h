// Memory that was made with cuMemCreate: charged once, returned when the last reference is released
// and the last mapping is gone, in whichever order (a mapping alone keeps the memory; so does a
// place in a sparse array or a multicast object).
//
// Memory that was exported can live on in another process when this one has let go of it. Its
// charge then becomes part of what the agent settles by the driver's figures (context_bytes).
//
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
  // Those that end something answer with a bit for each GPU that the agent is to settle.
  uint32_t OnRelease(uint64_t handle);
  void OnMap(uint64_t address, uint64_t bytes, uint64_t handle);
  // All mappings that begin in [address, address + bytes).
  uint32_t OnUnmap(uint64_t address, uint64_t bytes);
  void OnExport(uint64_t handle);

  // A place in a sparse array or a multicast object: `place` tells those of one resource apart.
  void OnPin(uint64_t resource, uint64_t place, uint64_t handle);
  uint32_t OnUnpin(uint64_t resource, uint64_t place);
  // The handle of the memory that is mapped at an address; 0 when it is not known.
  uint64_t HandleAt(uint64_t address);
  uint32_t OnResourceGone(uint64_t resource);
  // cuMemRetainAllocationHandle gave `handle` for the memory at `address`.
  void OnRetain(uint64_t handle, uint64_t address);

  void ForgetAfterFork();

 private:
  struct Memory {
    uint64_t bytes;
    uint32_t gpu;
    uint32_t references;
    uint32_t mappings;  // and pins
    bool exported;
  };
  struct Mapping {
    uint64_t bytes;
    uint64_t memory;  // key of Memory
  };

  struct Pin {
    uint64_t resource;
    uint64_t memory;
  };

  uint32_t ReturnIfUnusedLocked(uint64_t key);
  uint32_t DropMappingLocked(uint64_t key);

  Account* account_;
  Lock lock_;
  Table<Memory> memories_;   // by a number of our own
  Table<uint64_t> handles_;  // handle -> that number; several handles can name one memory
  Table<Mapping> mappings_;  // by address
  Table<Pin> pins_;          // by resource and place
  uint64_t last_key_ = 0;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_PHYSICAL_HANDLES_H_
