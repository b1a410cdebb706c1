// Graphs that allocate memory: what they can take is known when they become executable, and is
// charged before a launch or an upload takes it.
#include "limiter/entry/entry.h"
#include "limiter/life/log.h"

namespace {

using namespace krux::limiter;

CUresult Note(CUgraphExec exec, CUgraph graph) {
  Process& self = Self();
  const GraphNeed need = NeedOf(graph);
  if (need.bytes == 0) return CUDA_SUCCESS;
  const uint32_t gpu = self.devices.GpuOf(need.device);
  if (need.several_devices || gpu == Devices::kNotGranted) {
    LogLine("a graph that allocates memory on several devices is refused: it can't be counted");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return self.graph_memory.Set(exec, need, gpu) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

template <typename Call>
CUresult Instantiate(CUgraphExec* exec, CUgraph graph, Call call) {
  const EntryGuard guard;
  const CUresult result = call();
  if (!guard.active() || result != CUDA_SUCCESS || !Self().graph_memory.any()) return result;
  const CUresult noted = Note(*exec, graph);
  if (noted != CUDA_SUCCESS) {
    Real().cuGraphExecDestroy(*exec);
    *exec = nullptr;
  }
  return noted;
}

// With CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD the driver takes the memory at once, so the flag is left
// out of the driver's call and the upload made by our own entry.
template <typename Call>
CUresult InstantiateWith(CUgraphExec* exec, CUgraph graph,
                         CUDA_GRAPH_INSTANTIATE_PARAMS* parameters, Call call) {
  constexpr cuuint64_t kUpload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  const bool uploads = Self().graph_memory.any() && parameters != nullptr &&
                       (parameters->flags & kUpload) != 0 && Self().ready();
  if (uploads) parameters->flags &= ~kUpload;
  const CUresult result = Instantiate(exec, graph, call);
  if (!uploads) return result;
  parameters->flags |= kUpload;
  return result == CUDA_SUCCESS ? cuGraphUpload(*exec, parameters->hUploadStream) : result;
}

template <typename Call>
CUresult Update(CUgraphExec exec, CUgraph graph, Call call) {
  const EntryGuard guard;
  const CUresult result = call();
  if (guard.active() && result == CUDA_SUCCESS && Self().graph_memory.any()) {
    static_cast<void>(Note(exec, graph));
  }
  return result;
}

}  // namespace

CUresult krux::limiter::TakingGraphMemory(CUgraphExec exec, CUresult (*call)(const void*),
                                          const void* argument) {
  GraphMemory& memory = Self().graph_memory;
  if (!memory.any()) return call(argument);
  GraphMemory::Launch launch = memory.Find(exec);
  if (launch.need == 0) return call(argument);
  const bool may_wait = Self().captures.load(std::memory_order_relaxed) == 0;
  if (!memory.Charge(&launch, may_wait) &&
      !(Self().pools.TrimAll(launch.gpu) && memory.Charge(&launch, may_wait))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = call(argument);
  memory.Settle(launch);
  return result;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  const EntryGuard guard;
  if (guard.active()) Self().graph_memory.NoteNode();
  return Real().cuGraphAddMemAllocNode(node, graph, dependencies, count, parameters);
}

CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                            size_t log_size) {
  return Instantiate(exec, graph, [&] {
    return Real().cuGraphInstantiate(exec, graph, error_node, log, log_size);
  });
}

CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph, CUgraphNode* error_node, char* log,
                               size_t log_size) {
  return Instantiate(exec, graph, [&] {
    return Real().cuGraphInstantiate_v2(exec, graph, error_node, log, log_size);
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return Instantiate(exec, graph,
                     [&] { return Real().cuGraphInstantiateWithFlags(exec, graph, flags); });
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return InstantiateWith(exec, graph, parameters, [&] {
    return Real().cuGraphInstantiateWithParams(exec, graph, parameters);
  });
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec* exec, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return InstantiateWith(exec, graph, parameters, [&] {
    return Real().cuGraphInstantiateWithParams_ptsz(exec, graph, parameters);
  });
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* update) {
  return Update(exec, graph,
                [&] { return Real().cuGraphExecUpdate(exec, graph, error_node, update); });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  return Update(exec, graph, [&] { return Real().cuGraphExecUpdate_v2(exec, graph, info); });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const EntryGuard guard;
  const CUresult result = Real().cuGraphExecDestroy(exec);
  if (guard.active() && result == CUDA_SUCCESS && Self().graph_memory.any()) {
    Self().graph_memory.Forget(exec);
  }
  return result;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  const auto call = [&] { return Real().cuGraphUpload(exec, stream); };
  const EntryGuard guard;
  return guard.active() ? TakingGraphMemory(exec, call) : call();
}

CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  const auto call = [&] { return Real().cuGraphUpload_ptsz(exec, stream); };
  const EntryGuard guard;
  return guard.active() ? TakingGraphMemory(exec, call) : call();
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
  const EntryGuard guard;
  const CUresult result = Real().cuDeviceGraphMemTrim(device);
  if (guard.active() && result == CUDA_SUCCESS) Self().graph_memory.SettleAll();
  return result;
}
