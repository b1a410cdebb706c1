// Doors that are closed because what comes through them is not counted or not scheduled yet. Each
// says so; README.md lists them.
#include "limiter/entry/entry.h"
#include "limiter/life/log.h"

namespace {

using namespace krux::limiter;

CUresult Refuse(const char* what, const char* why) {
  LogLine("%s is refused: %s", what, why);
  return CUDA_ERROR_NOT_SUPPORTED;
}

constexpr char kGraphMemory[] = "memory of graph nodes is not counted yet";

constexpr char kSparse[] = "memory that is mapped into sparse arrays is not followed yet";

bool TakesMemory(const CUgraphNodeParams* parameters) {
  return parameters != nullptr && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
}

}  // namespace

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* parameters) {
  const EntryGuard guard;
  if (guard.active()) return Refuse("cuGraphAddMemAllocNode", kGraphMemory);
  return Real().cuGraphAddMemAllocNode(node, graph, dependencies, count, parameters);
}

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                        size_t count, CUgraphNodeParams* parameters) {
  const EntryGuard guard;
  if (guard.active() && TakesMemory(parameters)) return Refuse("cuGraphAddNode", kGraphMemory);
  return Real().cuGraphAddNode(node, graph, dependencies, count, parameters);
}

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* edges, size_t count,
                           CUgraphNodeParams* parameters) {
  const EntryGuard guard;
  if (guard.active() && TakesMemory(parameters)) return Refuse("cuGraphAddNode", kGraphMemory);
  return Real().cuGraphAddNode_v2(node, graph, dependencies, edges, count, parameters);
}

CUresult cuImportExternalMemory(CUexternalMemory* memory,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) {
  const EntryGuard guard;
  if (guard.active()) {
    return Refuse("cuImportExternalMemory", "memory of other graphics interfaces is not counted");
  }
  return Real().cuImportExternalMemory(memory, description);
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo* mappings, unsigned int count, CUstream stream) {
  const EntryGuard guard;
  if (guard.active()) return Refuse("cuMemMapArrayAsync", kSparse);
  return Real().cuMemMapArrayAsync(mappings, count, stream);
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo* mappings, unsigned int count, CUstream stream) {
  const EntryGuard guard;
  if (guard.active()) return Refuse("cuMemMapArrayAsync", kSparse);
  return Real().cuMemMapArrayAsync_ptsz(mappings, count, stream);
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launches, unsigned int count,
                                              unsigned int flags) {
  const EntryGuard guard;
  if (guard.active()) {
    return Refuse("cuLaunchCooperativeKernelMultiDevice", "CUDA itself has given it up");
  }
  return Real().cuLaunchCooperativeKernelMultiDevice(launches, count, flags);
}
