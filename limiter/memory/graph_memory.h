// Memory of graphs: allocation nodes, whether they were added by hand or captured. The driver
// takes it from the card when a graph is uploaded or launched, keeps it in one pool for each
// device, and gives it back only when the program trims (cuDeviceGraphMemTrim) or we do.
//
// What a graph can need is the sum of its allocation nodes. That is charged before a launch and
// settled after it to what the driver says that it reserves. When that does not fit, the graph may
// still find its memory in the pool:
//   - it is the graph that took memory last: it finds what it had;
//   - all graphs since the last trim free what they allocate, and this one was launched among them:
//     it finds memory when nothing runs any more, so the work in flight is waited for.
// Else the pool is trimmed, and the whole need must fit.
//
// Thread-safe. Asks the driver under its lock; waits for the device only in that last case.
#ifndef KRUX_LIMITER_MEMORY_GRAPH_MEMORY_H_
#define KRUX_LIMITER_MEMORY_GRAPH_MEMORY_H_

#include <atomic>
#include <cstdint>

#include "limiter/driver/cuda_api.h"
#include "limiter/life/lock.h"
#include "limiter/life/table.h"
#include "limiter/memory/account.h"

namespace krux::limiter {

// Bytes that the allocation nodes of a graph can take, and on which device (all on one).
struct GraphNeed {
  uint64_t bytes = 0;
  CUdevice device = -1;
  bool several_devices = false;
  bool frees_all = false;  // whatever it allocates
};
// Asks the driver for the nodes of the graph and of its child graphs.
GraphNeed NeedOf(CUgraph graph);

class GraphMemory {
 public:
  explicit constexpr GraphMemory(Account* account) : account_(account) {}

  // Until the first allocation node of the process nothing else here is needed.
  void NoteNode() { any_.store(true, std::memory_order_release); }
  bool any() const { return any_.load(std::memory_order_acquire); }

  // The exec needs `need`, on `gpu`. False: no memory for the note.
  bool Set(CUgraphExec exec, const GraphNeed& need, uint32_t gpu);
  void Forget(CUgraphExec exec);

  // A launch or an upload of an exec: bytes 0 when it takes no memory.
  struct Launch {
    uint64_t need = 0;
    uint64_t charged = 0;
    uint32_t gpu = 0;
    CUgraphExec exec = nullptr;
  };
  Launch Find(CUgraphExec exec);
  // Charges what the launch may take. False: out of memory. may_wait: no stream captures.
  bool Charge(Launch* launch, bool may_wait);
  // After it, whether it succeeded or not.
  void Settle(const Launch& launch);

  // Gives unused graph memory of the GPU back to the card. False when there was none.
  bool Trim(uint32_t gpu);
  // The program has trimmed.
  void SettleAll();

  void ForgetAfterFork();

 private:
  struct Exec {
    uint64_t bytes;
    uint32_t gpu;
    CUdevice device;
    bool frees_all;
    uint64_t era;  // of its last launch
  };
  struct Pool {
    uint64_t charged = 0;
    CUdevice device = -1;
    uint64_t era = 1;        // counts the trims
    bool holds = false;      // some graph since the last trim has not freed all
    uint64_t last_exec = 0;  // that took memory
  };

  bool FindsItsMemory(const Launch& launch, bool may_wait);
  void TrimLocked(uint32_t gpu);
  void SettleLocked(uint32_t gpu, uint64_t ahead);

  Account* account_;
  std::atomic<bool> any_{false};
  Lock lock_;
  Table<Exec> execs_;
  Pool pools_[kMaxPageGpus] = {};
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_GRAPH_MEMORY_H_
