// The limiter in this process: its parts, its state, and the guard that every entry takes.
//
//   fresh -> starting -> ready       (the first cuInit: Start)
//                     -> refused     (a later cuInit tries again)
//   ready -> fresh                   (in a fork child: it has no GPU state of its parent)
//
// Until it is ready every entry passes straight to the driver, which itself answers
// CUDA_ERROR_NOT_INITIALIZED to all that matters, since no cuInit has reached it.
#ifndef KRUX_LIMITER_LIFE_PROCESS_H_
#define KRUX_LIMITER_LIFE_PROCESS_H_

#include <atomic>
#include <cstdint>

#include "limiter/compute/cost_model.h"
#include "limiter/compute/gate.h"
#include "limiter/compute/keeper.h"
#include "limiter/compute/streams.h"
#include "limiter/compute/thread_words.h"
#include "limiter/driver/driver.h"
#include "limiter/life/agent_link.h"
#include "limiter/life/devices.h"
#include "limiter/life/lock.h"
#include "limiter/memory/account.h"
#include "limiter/memory/allocations.h"
#include "limiter/memory/contexts.h"
#include "limiter/memory/graph_memory.h"
#include "limiter/memory/local_memory.h"
#include "limiter/memory/managed_memory.h"
#include "limiter/memory/physical_handles.h"
#include "limiter/memory/pools.h"

namespace krux::limiter {

struct Process {
  enum State : uint32_t { kFresh, kReady };

  std::atomic<uint32_t> state{kFresh};
  Lock start_lock;
  const char* folder = nullptr;
  const LimitsPage* limits = nullptr;
  AgentLink link;
  Devices devices;

  Account account;
  ManagedMemory managed{&account};
  Allocations allocations{&account, &managed};
  PhysicalHandles physical{&account};
  Pools pools{&account, &managed};
  Contexts contexts{&account};
  GraphMemory graph_memory{&account};
  KnownFunctions known_functions;

  Pace pace;
  CostModel costs;
  Streams streams;
  ThreadWords words;
  Gate gate{&account, &link, &streams, &words};
  Keeper keeper{&account, &link, &streams, &words, &gate};
  std::atomic<uint32_t> captures{0};  // streams that capture; while > 0 launches ask the driver

  bool ready() const { return state.load(std::memory_order_acquire) == kReady; }
};

// The one instance. Constant-initialised: there is no constructor to run at load.
Process& Self();

// The first half of cuInit: pages, agent, hooks. Thread-safe; once it has succeeded it does
// nothing.
Problem StartBeforeDriver();
// The second half, when the driver is initialised: devices. Then the process is ready.
Problem StartAfterDriver();

// Just the pages and the account, for programs that use NVML without CUDA.
Problem OpenPages();

// An entry that the driver calls for itself, or that comes from the limiter's own driver calls,
// must not be counted again.
class EntryGuard {
 public:
  EntryGuard() : active_(!inside_ && Self().ready()) {
    if (active_) inside_ = true;
  }
  ~EntryGuard() {
    if (active_) inside_ = false;
  }
  EntryGuard(const EntryGuard&) = delete;
  EntryGuard& operator=(const EntryGuard&) = delete;

  // False: pass straight to the driver.
  bool active() const { return active_; }

 private:
  static constinit thread_local bool inside_;
  bool active_;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_PROCESS_H_
