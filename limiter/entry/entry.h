// Shared by the entries: how a driver call is charged and how a launch passes the gate. Templates,
// so that each entry stays one readable line per symbol.
//
// An entry has one shape: guard, account or gate, real call, settle. It allocates nothing, throws
// nothing, and when the limiter is not active it is the driver's call and nothing else.
#ifndef KRUX_LIMITER_ENTRY_ENTRY_H_
#define KRUX_LIMITER_ENTRY_ENTRY_H_

#include "limiter/driver/driver.h"
#include "limiter/life/process.h"
#include "limiter/memory/sizes.h"

namespace krux::limiter {

// The current context as a number; 0 when there is none.
uint64_t CurrentContextNumber();

// Charges, after giving back what this process's pools do not use if that is needed.
bool ChargeOrTrim(uint32_t gpu, uint64_t bytes);

// Whether the driver lists the memory under the process that has it.
enum class Listed { kYes, kNo };

// A memory allocation with slabs of its own on the current GPU. `worst` bytes are charged before,
// call() makes it, actual() gives what it really takes (asked only after success), handle() the
// driver's handle, undo() frees it again.
template <typename Call, typename Actual, typename HandleOf, typename Undo>
CUresult ChargedAllocation(uint32_t gpu, uint64_t worst, Call call, Actual actual,
                           HandleOf handle_of, Undo undo, Listed listed = Listed::kYes) {
  Process& self = Self();
  if (gpu == Devices::kNotGranted) return call();  // no current context: the driver says so
  if (!ChargeOrTrim(gpu, worst)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    self.account.Return(gpu, worst);
    return result;
  }
  const uint64_t bytes = actual();
  const bool settled = self.account.Settle(gpu, worst, bytes);
  const bool unlisted = listed == Listed::kNo;
  const Allocations::Record record{bytes, CurrentContextNumber(), gpu, false, unlisted};
  if (unlisted) self.account.NoteUnlisted(gpu, bytes);
  if (settled && self.allocations.Add(handle_of(), record)) return CUDA_SUCCESS;
  undo();
  if (unlisted) self.account.ForgetUnlisted(gpu, bytes);
  self.account.Return(gpu, settled ? bytes : worst);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// A free of something that may be in the map.
template <typename Call>
CUresult ChargedFree(uint64_t handle, Call call) {
  Process& self = Self();
  Allocations::Record record{};
  if (!self.allocations.TakeOut(handle, &record)) return call();
  const CUresult result = call();
  if (result == CUDA_SUCCESS) {
    self.allocations.Return(handle, record);
  } else {
    self.allocations.PutBack(handle, record);
  }
  return result;
}

// True when the stream records a graph instead of running: then nothing of ours may touch it.
bool IsCapturing(CUstream stream);

// A launch of work that is expected to take `cost`.
template <typename Call>
CUresult GatedLaunch(CUstream stream, DefaultStream default_stream, Cost& cost, Call call) {
  Process& self = Self();
  stream = Streams::Resolve(stream, default_stream);
  if (self.captures.load(std::memory_order_relaxed) != 0 && IsCapturing(stream)) return call();
  const uint32_t gpu = self.devices.CurrentGpu();
  if (gpu == Devices::kNotGranted) return call();
  if (__builtin_expect(!self.keeper.started(), 0)) self.keeper.Start(self.limits, self.folder);
  Stream* tracked = self.streams.Find(stream, gpu);
  CUresult result;
  {
    Admission admission(self.gate, gpu, tracked, cost, self.pace);
    result = call();
    if (result == CUDA_SUCCESS) {
      admission.Launched(self.streams);
      if (tracked == nullptr) Real().cuStreamSynchronize(stream);
    }
  }
  return result;
}

// The function is about to be launched, or becomes a node of a graph: what its local memory grows
// by is charged. False: out of memory. *grown says that something was charged: the agent is to be
// told after the launch (kContextMade), so that it settles it.
bool LocalMemoryFits(CUfunction function, bool* grown);
// The same for so many bytes a thread on the current context's GPU.
bool LocalBytesFit(uint32_t gpu, uint64_t bytes_per_thread, bool* grown);
// The driver has made local memory smaller.
void LowerLocalBytes(uint32_t gpu, uint64_t bytes_per_thread);

// Charges the memory that a launch or an upload of the graph may take around the driver's call.
CUresult TakingGraphMemory(CUgraphExec exec, CUresult (*call)(const void*), const void* argument);
template <typename Call>
CUresult TakingGraphMemory(CUgraphExec exec, const Call& call) {
  return TakingGraphMemory(
      exec, [](const void* argument) { return (*static_cast<const Call*>(argument))(); }, &call);
}

// Keys of the cost model for work that is no kernel.
enum class WorkKind : uint64_t { kMemset = 1, kCopy = 2 };
inline Cost& WorkCost(WorkKind kind, uint64_t bytes) {
  return Self().costs.Find(CostModel::KeyOf(static_cast<uint64_t>(kind), bytes));
}

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_ENTRY_ENTRY_H_
