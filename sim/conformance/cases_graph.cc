// Graphs: building, instantiating, launching, updating, cloning.
#include <atomic>
#include <string>
#include <vector>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

struct Graph {
  CUgraph graph = nullptr;
  Graph() { CU(cuGraphCreate, &graph, 0U); }
  ~Graph() { CU(cuGraphDestroy, graph); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
};

CUgraphNode AddEmpty(CUgraph graph, std::vector<CUgraphNode> after = {}) {
  CUgraphNode node = nullptr;
  CU(cuGraphAddEmptyNode, &node, graph, after.data(), after.size());
  return node;
}
CUDA_KERNEL_NODE_PARAMS KernelParams(const char* name = "empty", unsigned blocks = 1) {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = Kernel(name);
  params.gridDimX = blocks;
  params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = 32;
  params.blockDimY = params.blockDimZ = 1;
  return params;
}
CUgraphNode AddKernel(CUgraph graph, unsigned blocks = 1) {
  CUgraphNode node = nullptr;
  const CUDA_KERNEL_NODE_PARAMS params = KernelParams("empty", blocks);
  CU(cuGraphAddKernelNode, &node, graph, nullptr, 0, &params);
  return node;
}
CUgraphExec Instantiate(Answer& out, CUgraph graph) {
  CUgraphExec exec = nullptr;
  out("instantiate", CU(cuGraphInstantiate, &exec, graph, 0U));
  return exec;
}
void Update(Answer& out, CUgraphExec exec, CUgraph graph) {
  CUgraphExecUpdateResultInfo info{};
  out("update", CU(cuGraphExecUpdate, exec, graph, &info));
  out("why", static_cast<int>(info.result));
  out("node", info.errorNode != nullptr);
}
void CUDA_CB Count(void* counter) { static_cast<std::atomic<int>*>(counter)->fetch_add(1); }

const Case kCases[] = {
    {"graph.create.bad", kContext,
     [](Answer& out) {
       CUgraph graph = nullptr;
       out("null", CU(cuGraphCreate, nullptr, 0U));
       out("flags", CU(cuGraphCreate, &graph, 1U));
       out("destroy-null", CU(cuGraphDestroy, nullptr));
     }},
    {"graph.empty.launch", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphExec exec = Instantiate(out, g.graph);
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       out("sync", CU(cuStreamSynchronize, nullptr));
       out("destroy", CU(cuGraphExecDestroy, exec));
     }},
    {"graph.nodes.count", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode first = AddEmpty(g.graph);
       CUgraphNode second = AddEmpty(g.graph, {first});
       AddEmpty(g.graph, {first, second});
       size_t count = 0;
       out("nodes", CU(cuGraphGetNodes, g.graph, nullptr, &count));
       out("count", count);
       out("roots", CU(cuGraphGetRootNodes, g.graph, nullptr, &count));
       out("count", count);
       out("edges", CU(cuGraphGetEdges, g.graph, nullptr, nullptr, nullptr, &count));
       out("count", count);
       out("dependencies", CU(cuGraphNodeGetDependencies, second, nullptr, nullptr, &count));
       out("count", count);
       out("dependents", CU(cuGraphNodeGetDependentNodes, first, nullptr, nullptr, &count));
       out("count", count);
       out("null", CU(cuGraphGetNodes, g.graph, nullptr, nullptr));
     }},
    {"graph.nodes.more-room", kContext,
     [](Answer& out) {
       const Graph g;
       AddEmpty(g.graph);
       std::vector<CUgraphNode> nodes(4, reinterpret_cast<CUgraphNode>(8));
       size_t count = 4;
       out("get", CU(cuGraphGetNodes, g.graph, nodes.data(), &count));
       out("count", count);
       out("rest-zero", nodes[1] == nullptr);
     }},
    {"graph.dependency.bad", kContext,
     [](Answer& out) {
       const Graph g;
       const Graph other;
       CUgraphNode foreign = AddEmpty(other.graph);
       CUgraphNode node = nullptr;
       out("foreign", CU(cuGraphAddEmptyNode, &node, g.graph, &foreign, 1));
       out("null-list", CU(cuGraphAddEmptyNode, &node, g.graph, nullptr, 1));
       CUgraphNode mine = AddEmpty(g.graph);
       const std::vector<CUgraphNode> twice = {mine, mine};
       out("twice", CU(cuGraphAddEmptyNode, &node, g.graph, twice.data(), 2));
       out("null-out", CU(cuGraphAddEmptyNode, nullptr, g.graph, nullptr, 0));
     }},
    {"graph.dependency.add", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode first = AddEmpty(g.graph);
       CUgraphNode second = AddEmpty(g.graph);
       out("add", CU(cuGraphAddDependencies, g.graph, &first, &second, nullptr, 1));
       out("again", CU(cuGraphAddDependencies, g.graph, &first, &second, nullptr, 1));
       out("cycle", CU(cuGraphAddDependencies, g.graph, &second, &first, nullptr, 1));
       out("self", CU(cuGraphAddDependencies, g.graph, &first, &first, nullptr, 1));
       CUgraphExec exec = Instantiate(out, g.graph);
       out("remove", CU(cuGraphRemoveDependencies, g.graph, &first, &second, nullptr, 1));
       out("remove-again", CU(cuGraphRemoveDependencies, g.graph, &first, &second, nullptr, 1));
       if (exec != nullptr) CU(cuGraphExecDestroy, exec);
     }},
    {"graph.node.destroy", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode first = AddEmpty(g.graph);
       AddEmpty(g.graph, {first});
       out("destroy", CU(cuGraphDestroyNode, first));
       size_t count = 0;
       CU(cuGraphGetNodes, g.graph, nullptr, &count);
       out("nodes", count);
       CU(cuGraphGetEdges, g.graph, nullptr, nullptr, nullptr, &count);
       out("edges", count);
     }},
    {"graph.instantiate.bad", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphExec exec = nullptr;
       out("null-out", CU(cuGraphInstantiate, nullptr, g.graph, 0U));
       out("null-graph", CU(cuGraphInstantiate, &exec, nullptr, 0U));
       out("flags", CU(cuGraphInstantiate, &exec, g.graph, 0x1000U));
       out("destroy-null", CU(cuGraphExecDestroy, nullptr));
     }},
    {"graph.instantiate.params", kContext,
     [](Answer& out) {
       const Graph g;
       AddKernel(g.graph);
       CUgraphExec exec = nullptr;
       CUDA_GRAPH_INSTANTIATE_PARAMS params{};
       params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
       out("instantiate", CU(cuGraphInstantiateWithParams, &exec, g.graph, &params));
       out("why", static_cast<int>(params.result_out));
       cuuint64_t flags = 77;
       out("flags", CU(cuGraphExecGetFlags, exec, &flags));
       out("value", flags);
       out("upload", CU(cuGraphUpload, exec, nullptr));
       CU(cuGraphExecDestroy, exec);
     }},
    {"graph.launch.order", kContext,
     [](Answer& out) {
       const Graph g;
       std::atomic<int> counter{0};
       CUDA_HOST_NODE_PARAMS params{Count, &counter};
       CUgraphNode previous = nullptr;
       for (int i = 0; i < 5; ++i) {
         CUgraphNode node = nullptr;
         CU(cuGraphAddHostNode, &node, g.graph, &previous, previous == nullptr ? 0 : 1, &params);
         previous = node;
       }
       CUgraphExec exec = Instantiate(out, g.graph);
       out("first", CU(cuGraphLaunch, exec, CU_STREAM_PER_THREAD));
       out("second", CU(cuGraphLaunch, exec, CU_STREAM_PER_THREAD));
       CU(cuStreamSynchronize, CU_STREAM_PER_THREAD);
       out("count", counter.load());
       CU(cuGraphExecDestroy, exec);
     }},
    {"graph.launch.bad", kContext,
     [](Answer& out) { out("null", CU(cuGraphLaunch, nullptr, nullptr)); }},
    {"graph.launch.after-graph-destroyed", kContext,
     [](Answer& out) {
       CUgraph graph = nullptr;
       CU(cuGraphCreate, &graph, 0U);
       AddKernel(graph);
       CUgraphExec exec = Instantiate(out, graph);
       out("destroy", CU(cuGraphDestroy, graph));
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       out("sync", CU(cuCtxSynchronize));
       CU(cuGraphExecDestroy, exec);
     }},
    {"graph.destroy-exec-running", kContext,
     [](Answer& out) {
       const Graph g;
       std::atomic<int> counter{0};
       CUDA_HOST_NODE_PARAMS params{Count, &counter};
       CUgraphNode node = nullptr;
       CU(cuGraphAddHostNode, &node, g.graph, nullptr, 0, &params);
       CUgraphExec exec = Instantiate(out, g.graph);
       CU(cuGraphLaunch, exec, nullptr);
       out("destroy", CU(cuGraphExecDestroy, exec));
       CU(cuCtxSynchronize);
       out("count", counter.load());
     }},
    {"graph.update.same", kContext,
     [](Answer& out) {
       const Graph first;
       const Graph second;
       AddKernel(first.graph);
       AddKernel(second.graph, 2);
       CUgraphExec exec = Instantiate(out, first.graph);
       Update(out, exec, second.graph);
       CU(cuGraphExecDestroy, exec);
     }},
    {"graph.update.more-nodes", kContext,
     [](Answer& out) {
       const Graph first;
       const Graph second;
       AddKernel(first.graph);
       AddKernel(second.graph);
       AddKernel(second.graph);
       CUgraphExec exec = Instantiate(out, first.graph);
       Update(out, exec, second.graph);
       Update(out, exec, first.graph);
       CU(cuGraphExecDestroy, exec);
     }},
    {"graph.update.other-kind", kContext,
     [](Answer& out) {
       const Graph first;
       const Graph second;
       AddKernel(first.graph);
       AddEmpty(second.graph);
       CUgraphExec exec = Instantiate(out, first.graph);
       Update(out, exec, second.graph);
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       CU(cuCtxSynchronize);
       CU(cuGraphExecDestroy, exec);
     }},
    {"graph.update.other-edges", kContext,
     [](Answer& out) {
       const Graph first;
       const Graph second;
       AddEmpty(first.graph, {AddEmpty(first.graph)});
       AddEmpty(second.graph);
       AddEmpty(second.graph);
       CUgraphExec exec = Instantiate(out, first.graph);
       Update(out, exec, second.graph);
       CU(cuGraphExecDestroy, exec);
     }},
    {"graph.update.other-function", kContext,
     [](Answer& out) {
       const Graph first;
       const Graph second;
       AddKernel(first.graph);
       CUgraphNode node = nullptr;
       CUDA_KERNEL_NODE_PARAMS params = KernelParams("shared_4k");
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       void* parameters[] = {&pointer};
       params.kernelParams = parameters;
       out("add", CU(cuGraphAddKernelNode, &node, second.graph, nullptr, 0, &params));
       CUgraphExec exec = Instantiate(out, first.graph);
       Update(out, exec, second.graph);
       CU(cuGraphExecDestroy, exec);
       CU(cuMemFree, pointer);
     }},
    {"graph.clone", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode node = AddKernel(g.graph);
       CUgraph clone = nullptr;
       out("clone", CU(cuGraphClone, &clone, g.graph));
       CUgraphNode twin = nullptr;
       out("find", CU(cuGraphNodeFindInClone, &twin, node, clone));
       out("other", twin != node && twin != nullptr);
       out("find-in-original", CU(cuGraphNodeFindInClone, &twin, node, g.graph));
       out("null", CU(cuGraphClone, nullptr, g.graph));
       CU(cuGraphDestroy, clone);
     }},
    {"graph.enabled", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode kernel = AddKernel(g.graph);
       CUgraphNode empty = AddEmpty(g.graph);
       CUgraphExec exec = Instantiate(out, g.graph);
       unsigned enabled = 77;
       out("get", CU(cuGraphNodeGetEnabled, exec, kernel, &enabled));
       out("value", enabled);
       out("off", CU(cuGraphNodeSetEnabled, exec, kernel, 0U));
       CU(cuGraphNodeGetEnabled, exec, kernel, &enabled);
       out("value", enabled);
       out("empty-node", CU(cuGraphNodeSetEnabled, exec, empty, 0U));
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       CU(cuCtxSynchronize);
       CU(cuGraphExecDestroy, exec);
     }},
    {"graph.user-object", kContext,
     [](Answer& out) {
       std::atomic<int> counter{0};
       CUuserObject object = nullptr;
       out("create", CU(cuUserObjectCreate, &object, &counter, Count, 1U,
                        unsigned{CU_USER_OBJECT_NO_DESTRUCTOR_SYNC}));
       {
         const Graph g;
         out("retain",
             CU(cuGraphRetainUserObject, g.graph, object, 1U, unsigned{CU_GRAPH_USER_OBJECT_MOVE}));
         out("before", counter.load());
       }
       out("after", counter.load());
       out("flags", CU(cuUserObjectCreate, &object, &counter, Count, 1U, 0U));
     }},
    {"graph.debug-print", kContext,
     [](Answer& out) {
       const Graph g;
       AddEmpty(g.graph);
       out("print", CU(cuGraphDebugDotPrint, g.graph, "/dev/null", 0U));
       out("null", CU(cuGraphDebugDotPrint, g.graph, nullptr, 0U));
     }},
    {"graph.relaunch-captured", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       CU(cuMemsetD32, pointer, 0U, 16);
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
       CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
       CU(cuMemsetD32Async, pointer, 5U, 4, stream);
       CU(cuMemcpyDtoDAsync, pointer + 32, pointer, 8, stream);
       CUgraph graph = nullptr;
       CU(cuStreamEndCapture, stream, &graph);
       CUgraphExec exec = Instantiate(out, graph);
       CU(cuGraphLaunch, exec, stream);
       CU(cuStreamSynchronize, stream);
       unsigned words[16] = {};
       CU(cuMemcpyDtoH, words, pointer, 64);
       out("set", words[3]);
       out("copied", words[9]);
       out("rest", words[10]);
       CU(cuGraphExecDestroy, exec);
       CU(cuGraphDestroy, graph);
       CU(cuStreamDestroy, stream);
       CU(cuMemFree, pointer);
     }},
    {"graph.capture-to-graph", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode node = AddEmpty(g.graph);
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
       out("begin", CU(cuStreamBeginCaptureToGraph, stream, g.graph, &node, nullptr, 1,
                       CU_STREAM_CAPTURE_MODE_GLOBAL));
       Launch(Kernel("empty"), stream);
       CUgraph graph = nullptr;
       out("end", CU(cuStreamEndCapture, stream, &graph));
       out("same", graph == g.graph);
       size_t count = 0;
       CU(cuGraphGetNodes, g.graph, nullptr, &count);
       out("nodes", count);
       CU(cuStreamDestroy, stream);
     }},
    {"graph.launch-into-capture", kContext,
     [](Answer& out) {
       const Graph g;
       AddKernel(g.graph);
       CUgraphExec exec = Instantiate(out, g.graph);
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
       CU(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
       out("launch", CU(cuGraphLaunch, exec, stream));
       CUgraph graph = nullptr;
       out("end", CU(cuStreamEndCapture, stream, &graph));
       size_t count = 0;
       if (graph != nullptr) CU(cuGraphGetNodes, graph, nullptr, &count);
       out("nodes", count);
       CU(cuStreamDestroy, stream);
     },
     kOwnProcess},
};

}  // namespace

std::span<const Case> GraphCases() { return kCases; }

}  // namespace krux::sim::conformance
