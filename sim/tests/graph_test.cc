// Graphs: memory, child, conditional and event nodes, edges, updates, captures of allocations.
#include "sim/tests/sim_test.h"

namespace krux::sim {
namespace {

using GraphTest = SimTest;

// A graph that sets the 32-bit word at `address`.
CUgraphNode AddFill(CUgraph graph, CUdeviceptr address, unsigned value,
                    std::vector<CUgraphNode> after = {}) {
  CUDA_MEMSET_NODE_PARAMS fill = {};
  fill.dst = address;
  fill.value = value;
  fill.elementSize = 4;
  fill.width = 1;
  fill.height = 1;
  CUgraphNode node = nullptr;
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  EXPECT_EQ(cuGraphAddMemsetNode(&node, graph, after.data(), after.size(), &fill, context),
            CUDA_SUCCESS);
  return node;
}

unsigned WordAt(CUdeviceptr address) {
  unsigned word = 0;
  EXPECT_EQ(cuMemcpyDtoH(&word, address, sizeof word), CUDA_SUCCESS);
  return word;
}

CUresult LaunchOnce(CUgraph graph, CUstream stream) {
  CUgraphExec exec = nullptr;
  const CUresult made = cuGraphInstantiate(&exec, graph, 0);
  if (made != CUDA_SUCCESS) return made;
  const CUresult result = cuGraphLaunch(exec, stream);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  return result;
}

CUDA_MEM_ALLOC_NODE_PARAMS BlockOf(size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS block = {};
  block.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  block.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  block.bytesize = bytes;
  return block;
}

TEST_F(GraphTest, ChildGraphsRunAsPartOfTheirParent) {
  InChild([] {
    Program program;
    program.Open();
    CUdeviceptr word = 0;
    KRUX_CUDA_OK(cuMemAlloc(&word, 4));
    CUgraph child = nullptr;
    CUgraph graph = nullptr;
    KRUX_CUDA_OK(cuGraphCreate(&child, 0));
    KRUX_CUDA_OK(cuGraphCreate(&graph, 0));
    AddFill(child, word, 7);
    CUgraphNode node = nullptr;
    KRUX_CUDA_OK(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
    AddFill(child, word, 9);  // too late: the node has a copy
    KRUX_CUDA_OK(LaunchOnce(graph, program.stream));
    EXPECT_EQ(WordAt(word), 7U);
    CUgraph inner = nullptr;
    size_t count = 0;
    KRUX_CUDA_OK(cuGraphChildGraphNodeGetGraph(node, &inner));
    KRUX_CUDA_OK(cuGraphGetNodes(inner, nullptr, &count));
    EXPECT_EQ(count, 1U);
  });
}

TEST_F(GraphTest, MemoryNodesTakeTheCardsMemoryAtTheLaunch) {
  InChild([] {
    Program program;
    program.Open();
    CUgraph graph = nullptr;
    KRUX_CUDA_OK(cuGraphCreate(&graph, 0));
    CUDA_MEM_ALLOC_NODE_PARAMS block = BlockOf(64 << 20);
    CUgraphNode allocation = nullptr;
    CUgraphNode end = nullptr;
    const uint64_t before = FreeMiB();
    KRUX_CUDA_OK(cuGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &block));
    EXPECT_EQ(FreeMiB(), before);
    CUgraphNode fill = AddFill(graph, block.dptr, 5, {allocation});
    KRUX_CUDA_OK(cuGraphAddMemFreeNode(&end, graph, &fill, 1, block.dptr));
    CUgraphExec exec = nullptr;
    KRUX_CUDA_OK(cuGraphInstantiate(&exec, graph, 0));
    KRUX_CUDA_OK(cuGraphLaunch(exec, program.stream));
    KRUX_CUDA_OK(cuGraphLaunch(exec, program.stream));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    EXPECT_EQ(FreeMiB(), before - 64);
    cuuint64_t used = 0;
    cuuint64_t high = 0;
    KRUX_CUDA_OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
    KRUX_CUDA_OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &high));
    EXPECT_EQ(used, uint64_t{64} << 20);  // freed, and used until it is trimmed
    EXPECT_EQ(high, uint64_t{64} << 20);
    KRUX_CUDA_OK(cuDeviceGraphMemTrim(0));
    EXPECT_EQ(FreeMiB(), before);
  });
}

TEST_F(GraphTest, MemoryThatAGraphLeavesIsTheProgramsToFree) {
  InChild([] {
    Program program;
    program.Open();
    CUgraph graph = nullptr;
    KRUX_CUDA_OK(cuStreamBeginCapture(program.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUdeviceptr block = 0;
    KRUX_CUDA_OK(cuMemAllocAsync(&block, 4096, program.stream));
    KRUX_CUDA_OK(cuMemsetD32Async(block, 3, 1, program.stream));
    KRUX_CUDA_OK(cuStreamEndCapture(program.stream, &graph));
    CUgraphExec exec = nullptr;
    KRUX_CUDA_OK(cuGraphInstantiate(&exec, graph, 0));
    KRUX_CUDA_OK(cuGraphLaunch(exec, program.stream));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    EXPECT_EQ(WordAt(block), 3U);
    EXPECT_EQ(cuGraphLaunch(exec, program.stream), CUDA_ERROR_INVALID_VALUE);  // still there
    KRUX_CUDA_OK(cuMemFreeAsync(block, program.stream));
    KRUX_CUDA_OK(cuGraphLaunch(exec, program.stream));
    CUgraphExec frees_first = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&frees_first, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
    KRUX_CUDA_OK(cuGraphExecDestroy(exec));
    KRUX_CUDA_OK(
        cuGraphInstantiate(&frees_first, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    KRUX_CUDA_OK(cuGraphLaunch(frees_first, program.stream));
  });
}

TEST_F(GraphTest, ConditionsChooseTheirBodyByTheDefault) {
  for (const unsigned value : {0U, 1U}) {
    InChild([value] {
      Program program;
      program.Open();
      CUdeviceptr word = 0;
      KRUX_CUDA_OK(cuMemAlloc(&word, 4));
      CUgraph graph = nullptr;
      KRUX_CUDA_OK(cuGraphCreate(&graph, 0));
      CUgraphConditionalHandle handle = 0;
      KRUX_CUDA_OK(cuGraphConditionalHandleCreate(&handle, graph, program.context, value,
                                                  CU_GRAPH_COND_ASSIGN_DEFAULT));
      CUgraphNodeParams parameters = {};
      parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
      parameters.conditional.handle = handle;
      parameters.conditional.type = CU_GRAPH_COND_TYPE_IF;
      parameters.conditional.size = 2;
      parameters.conditional.ctx = program.context;
      CUgraphNode node = nullptr;
      KRUX_CUDA_OK(cuGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
      AddFill(parameters.conditional.phGraph_out[0], word, 10);
      AddFill(parameters.conditional.phGraph_out[1], word, 20);
      KRUX_CUDA_OK(LaunchOnce(graph, program.stream));
      EXPECT_EQ(WordAt(word), value != 0 ? 10U : 20U);
    });
  }
}

TEST_F(GraphTest, AnExecutableGraphTakesNewParameters) {
  InChild([] {
    Program program;
    program.Open();
    CUdeviceptr word = 0;
    KRUX_CUDA_OK(cuMemAlloc(&word, 4));
    auto graph_of = [&](unsigned value, int nodes) {
      CUgraph graph = nullptr;
      EXPECT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
      for (int i = 0; i < nodes; ++i) AddFill(graph, word, value);
      return graph;
    };
    CUgraphExec exec = nullptr;
    CUgraph first = graph_of(1, 1);
    KRUX_CUDA_OK(cuGraphInstantiate(&exec, first, 0));
    CUgraphExecUpdateResultInfo info = {};
    KRUX_CUDA_OK(cuGraphExecUpdate(exec, graph_of(2, 1), &info));
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    KRUX_CUDA_OK(cuGraphLaunch(exec, program.stream));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    EXPECT_EQ(WordAt(word), 2U);
    EXPECT_EQ(cuGraphExecUpdate(exec, graph_of(2, 2), &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);

    size_t count = 1;
    CUgraphNode node = nullptr;
    KRUX_CUDA_OK(cuGraphGetNodes(first, &node, &count));
    CUDA_MEMSET_NODE_PARAMS fill = {};
    KRUX_CUDA_OK(cuGraphMemsetNodeGetParams(node, &fill));
    EXPECT_EQ(fill.value, 1U);
    fill.value = 3;
    KRUX_CUDA_OK(cuGraphExecMemsetNodeSetParams(exec, node, &fill, program.context));
    KRUX_CUDA_OK(cuGraphLaunch(exec, program.stream));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    EXPECT_EQ(WordAt(word), 3U);
    KRUX_CUDA_OK(cuGraphNodeSetEnabled(exec, node, 0));
    KRUX_CUDA_OK(cuMemsetD32(word, 9, 1));
    KRUX_CUDA_OK(cuGraphLaunch(exec, program.stream));
    KRUX_CUDA_OK(cuStreamSynchronize(program.stream));
    EXPECT_EQ(WordAt(word), 9U);
  });
}

TEST_F(GraphTest, EdgesCanBeReadAndChanged) {
  InChild([] {
    Program program;
    program.Open();
    CUdeviceptr word = 0;
    KRUX_CUDA_OK(cuMemAlloc(&word, 4));
    CUgraph graph = nullptr;
    KRUX_CUDA_OK(cuGraphCreate(&graph, 0));
    CUgraphNode a = AddFill(graph, word, 1);
    CUgraphNode b = AddFill(graph, word, 2, {a});
    size_t count = 4;
    CUgraphNode from[4] = {};
    CUgraphNode to[4] = {};
    KRUX_CUDA_OK(cuGraphGetEdges(graph, from, to, nullptr, &count));
    ASSERT_EQ(count, 1U);
    EXPECT_EQ(from[0], a);
    EXPECT_EQ(to[0], b);
    EXPECT_EQ(cuGraphAddDependencies(graph, &a, &b, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    KRUX_CUDA_OK(cuGraphAddDependencies(graph, &b, &a, nullptr, 1));
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);  // a cycle
    KRUX_CUDA_OK(cuGraphRemoveDependencies(graph, &a, &b, nullptr, 1));
    KRUX_CUDA_OK(LaunchOnce(graph, program.stream));
    EXPECT_EQ(WordAt(word), 1U);
    KRUX_CUDA_OK(cuGraphDestroyNode(b));
    KRUX_CUDA_OK(cuGraphGetRootNodes(graph, nullptr, &count));
    EXPECT_EQ(count, 1U);
  });
}

TEST_F(GraphTest, AGraphLaunchedInACaptureBreaksTheCapture) {
  InChild([] {
    Program program;
    program.Open();
    CUdeviceptr word = 0;
    KRUX_CUDA_OK(cuMemAlloc(&word, 4));
    CUgraph inner = nullptr;
    CUgraph outer = nullptr;
    CUgraphExec exec = nullptr;
    KRUX_CUDA_OK(cuGraphCreate(&inner, 0));
    AddFill(inner, word, 6);
    KRUX_CUDA_OK(cuGraphInstantiate(&exec, inner, 0));
    KRUX_CUDA_OK(cuStreamBeginCapture(program.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_EQ(cuGraphLaunch(exec, program.stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(cuStreamEndCapture(program.stream, &outer), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    KRUX_CUDA_OK(cuGraphLaunch(exec, program.stream));
    EXPECT_EQ(WordAt(word), 6U);
  });
}

TEST_F(GraphTest, KeepsTheProgramsObjectsWhileItLives) {
  InChild([] {
    Program program;
    program.Open();
    static int destroyed = 0;
    CUuserObject object = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    KRUX_CUDA_OK(cuGraphCreate(&graph, 0));
    KRUX_CUDA_OK(cuUserObjectCreate(
        &object, &destroyed, [](void* value) { ++*static_cast<int*>(value); }, 1,
        CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    KRUX_CUDA_OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    KRUX_CUDA_OK(cuGraphInstantiate(&exec, graph, 0));
    KRUX_CUDA_OK(cuGraphDestroy(graph));
    EXPECT_EQ(destroyed, 0);
    KRUX_CUDA_OK(cuGraphExecDestroy(exec));
    EXPECT_EQ(destroyed, 1);
  });
}

TEST_F(GraphTest, EventsAreRecordedAndAwaitedByNodes) {
  InChild([] {
    Program program;
    program.Open();
    CUevent event = nullptr;
    CUgraph graph = nullptr;
    CUgraphNode record = nullptr;
    CUgraphNode wait = nullptr;
    KRUX_CUDA_OK(cuEventCreate(&event, 0));
    KRUX_CUDA_OK(cuGraphCreate(&graph, 0));
    KRUX_CUDA_OK(cuGraphAddEventRecordNode(&record, graph, nullptr, 0, event));
    KRUX_CUDA_OK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, event));
    KRUX_CUDA_OK(LaunchOnce(graph, program.stream));
    KRUX_CUDA_OK(cuEventQuery(event));
  });
}

}  // namespace
}  // namespace krux::sim
