// Graph nodes by kind: kernel, memset, copy, host, event, child, memory, conditional.
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

void Type(Answer& out, CUgraphNode node) {
  CUgraphNodeType type{};
  out("type", CU(cuGraphNodeGetType, node, &type));
  out("value", static_cast<int>(type));
}
CUDA_KERNEL_NODE_PARAMS KernelParams() {
  CUDA_KERNEL_NODE_PARAMS params{};
  params.func = Kernel("empty");
  params.gridDimX = params.gridDimY = params.gridDimZ = 1;
  params.blockDimX = 32;
  params.blockDimY = params.blockDimZ = 1;
  return params;
}
CUDA_MEM_ALLOC_NODE_PARAMS AllocParams(size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  params.bytesize = bytes;
  return params;
}
void GraphMemory(Answer& out) {
  for (const CUgraphMem_attribute attribute :
       {CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT}) {
    cuuint64_t value = 77;
    CU(cuDeviceGetGraphMemAttribute, 0, attribute, &value);
    out(attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ? "used" : "reserved", value);
  }
}

const Case kCases[] = {
    {"node.kernel.params", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode node = nullptr;
       CUDA_KERNEL_NODE_PARAMS params = KernelParams();
       out("add", CU(cuGraphAddKernelNode, &node, g.graph, nullptr, 0, &params));
       Type(out, node);
       CUDA_KERNEL_NODE_PARAMS seen{};
       out("get", CU(cuGraphKernelNodeGetParams, node, &seen));
       out("block", seen.blockDimX);
       out("same-function", seen.func == params.func);
       params.gridDimX = 0;
       out("set-no-grid", CU(cuGraphKernelNodeSetParams, node, &params));
       params.gridDimX = 7;
       out("set", CU(cuGraphKernelNodeSetParams, node, &params));
       CU(cuGraphKernelNodeGetParams, node, &seen);
       out("grid", seen.gridDimX);
       out("null", CU(cuGraphAddKernelNode, &node, g.graph, nullptr, 0, nullptr));
       out("wrong-kind", CU(cuGraphHostNodeGetParams, node, nullptr));
     }},
    {"node.kernel.bad", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode node = nullptr;
       CUDA_KERNEL_NODE_PARAMS params = KernelParams();
       params.func = nullptr;
       out("no-function", CU(cuGraphAddKernelNode, &node, g.graph, nullptr, 0, &params));
       params = KernelParams();
       params.blockDimX = 5000;
       out("large-block", CU(cuGraphAddKernelNode, &node, g.graph, nullptr, 0, &params));
       params = KernelParams();
       params.sharedMemBytes = 1 << 24;
       out("large-shared", CU(cuGraphAddKernelNode, &node, g.graph, nullptr, 0, &params));
     }},
    {"node.kernel.exec-set", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode node = nullptr;
       CUDA_KERNEL_NODE_PARAMS params = KernelParams();
       CU(cuGraphAddKernelNode, &node, g.graph, nullptr, 0, &params);
       CUgraphExec exec = nullptr;
       CU(cuGraphInstantiate, &exec, g.graph, 0U);
       params.gridDimX = 3;
       out("set", CU(cuGraphExecKernelNodeSetParams, exec, node, &params));
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       out("null", CU(cuGraphExecKernelNodeSetParams, exec, node, nullptr));
       CU(cuCtxSynchronize);
       CU(cuGraphExecDestroy, exec);
     }},
    {"node.kernel.attribute", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode node = nullptr;
       CUDA_KERNEL_NODE_PARAMS params = KernelParams();
       CU(cuGraphAddKernelNode, &node, g.graph, nullptr, 0, &params);
       CUkernelNodeAttrValue value{};
       out("get", CU(cuGraphKernelNodeGetAttribute, node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
       out("value", value.priority);
       value.priority = -2;
       out("set", CU(cuGraphKernelNodeSetAttribute, node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
       out("cooperative",
           CU(cuGraphKernelNodeGetAttribute, node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
       out("value", value.cooperative);
     }},
    {"node.memset", kContext,
     [](Answer& out) {
       const Graph g;
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       CUDA_MEMSET_NODE_PARAMS params{};
       params.dst = pointer;
       params.elementSize = 1;
       params.value = 5;
       params.width = 16;
       params.height = 1;
       CUgraphNode node = nullptr;
       out("add", CU(cuGraphAddMemsetNode, &node, g.graph, nullptr, 0, &params, PrimaryContext()));
       Type(out, node);
       params.elementSize = 3;
       out("element-3",
           CU(cuGraphAddMemsetNode, &node, g.graph, nullptr, 0, &params, PrimaryContext()));
       params.elementSize = 1;
       params.width = 0;
       out("no-width",
           CU(cuGraphAddMemsetNode, &node, g.graph, nullptr, 0, &params, PrimaryContext()));
       params.width = 16;
       params.dst = 0;
       out("no-target",
           CU(cuGraphAddMemsetNode, &node, g.graph, nullptr, 0, &params, PrimaryContext()));
       params.dst = pointer;
       out("no-context", CU(cuGraphAddMemsetNode, &node, g.graph, nullptr, 0, &params, nullptr));
       CU(cuMemFree, pointer);
     }},
    {"node.copy", kContext,
     [](Answer& out) {
       const Graph g;
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       CUDA_MEMCPY3D params{};
       params.srcMemoryType = params.dstMemoryType = CU_MEMORYTYPE_DEVICE;
       params.srcDevice = pointer;
       params.dstDevice = pointer + 1024;
       params.WidthInBytes = 16;
       params.Height = params.Depth = 1;
       CUgraphNode node = nullptr;
       out("add", CU(cuGraphAddMemcpyNode, &node, g.graph, nullptr, 0, &params, PrimaryContext()));
       Type(out, node);
       CUDA_MEMCPY3D seen{};
       out("get", CU(cuGraphMemcpyNodeGetParams, node, &seen));
       out("width", seen.WidthInBytes);
       params.WidthInBytes = 0;
       out("empty",
           CU(cuGraphAddMemcpyNode, &node, g.graph, nullptr, 0, &params, PrimaryContext()));
       CU(cuMemFree, pointer);
     }},
    {"node.host", kContext,
     [](Answer& out) {
       const Graph g;
       CUDA_HOST_NODE_PARAMS params{[](void*) {}, nullptr};
       CUgraphNode node = nullptr;
       out("add", CU(cuGraphAddHostNode, &node, g.graph, nullptr, 0, &params));
       Type(out, node);
       params.fn = nullptr;
       out("no-function", CU(cuGraphAddHostNode, &node, g.graph, nullptr, 0, &params));
     }},
    {"node.event", kContext,
     [](Answer& out) {
       const Graph g;
       CUevent event = nullptr;
       CU(cuEventCreate, &event, 0U);
       CUgraphNode record = nullptr;
       CUgraphNode wait = nullptr;
       out("record", CU(cuGraphAddEventRecordNode, &record, g.graph, nullptr, 0, event));
       Type(out, record);
       out("wait", CU(cuGraphAddEventWaitNode, &wait, g.graph, &record, 1, event));
       Type(out, wait);
       CUevent seen = nullptr;
       out("get", CU(cuGraphEventRecordNodeGetEvent, record, &seen));
       out("same", seen == event);
       CUgraphExec exec = nullptr;
       out("instantiate", CU(cuGraphInstantiate, &exec, g.graph, 0U));
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       out("sync", CU(cuEventSynchronize, event));
       CU(cuGraphExecDestroy, exec);
       CU(cuEventDestroy, event);
     }},
    {"node.child", kContext,
     [](Answer& out) {
       const Graph g;
       const Graph child;
       CUgraphNode inner = nullptr;
       CU(cuGraphAddEmptyNode, &inner, child.graph, nullptr, 0);
       CUgraphNode node = nullptr;
       out("add", CU(cuGraphAddChildGraphNode, &node, g.graph, nullptr, 0, child.graph));
       Type(out, node);
       CUgraph seen = nullptr;
       out("get", CU(cuGraphChildGraphNodeGetGraph, node, &seen));
       out("is-a-copy", seen != child.graph);
       size_t count = 0;
       CU(cuGraphGetNodes, seen, nullptr, &count);
       out("nodes", count);
       CUgraphExec exec = nullptr;
       out("instantiate", CU(cuGraphInstantiate, &exec, g.graph, 0U));
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       CU(cuCtxSynchronize);
       CU(cuGraphExecDestroy, exec);
     }},
    {"node.child.self", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode node = nullptr;
       out(CU(cuGraphAddChildGraphNode, &node, g.graph, nullptr, 0, g.graph));
     },
     kOwnProcess},
    {"node.child.null", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNode node = nullptr;
       out(CU(cuGraphAddChildGraphNode, &node, g.graph, nullptr, 0, nullptr));
     },
     kOwnProcess},
    {"node.memory.alloc-free", kContext,
     [](Answer& out) {
       const Graph g;
       CUDA_MEM_ALLOC_NODE_PARAMS params = AllocParams(1 << 20);
       CUgraphNode alloc = nullptr;
       CUgraphNode release = nullptr;
       out("alloc", CU(cuGraphAddMemAllocNode, &alloc, g.graph, nullptr, 0, &params));
       out("pointer", params.dptr != 0);
       Type(out, alloc);
       GraphMemory(out);
       out("free", CU(cuGraphAddMemFreeNode, &release, g.graph, &alloc, 1, params.dptr));
       Type(out, release);
       CUgraphExec exec = nullptr;
       out("instantiate", CU(cuGraphInstantiate, &exec, g.graph, 0U));
       GraphMemory(out);
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       CU(cuCtxSynchronize);
       GraphMemory(out);
       out("destroy", CU(cuGraphExecDestroy, exec));
       GraphMemory(out);
       out("trim", CU(cuDeviceGraphMemTrim, 0));
       GraphMemory(out);
     },
     kOwnProcess},
    {"node.memory.unfreed", kContext,
     [](Answer& out) {
       const Graph g;
       CUDA_MEM_ALLOC_NODE_PARAMS params = AllocParams(50 << 20);
       CUgraphNode alloc = nullptr;
       CU(cuGraphAddMemAllocNode, &alloc, g.graph, nullptr, 0, &params);
       CUgraphExec exec = nullptr;
       out("instantiate", CU(cuGraphInstantiate, &exec, g.graph, 0U));
       const auto before = static_cast<long long>(FreeBytes());
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       CU(cuCtxSynchronize);
       GraphMemory(out);
       out("taken-mib", Mib(before - static_cast<long long>(FreeBytes())));
       out("again", CU(cuGraphLaunch, exec, nullptr));
       out("use", CU(cuMemsetD8, params.dptr, static_cast<unsigned char>(1), 50 << 20));
       out("free", CU(cuMemFree, params.dptr));
       GraphMemory(out);
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       out("free-async", CU(cuMemFreeAsync, params.dptr, nullptr));
       CU(cuCtxSynchronize);
       CU(cuDeviceGraphMemTrim, 0);
       out("left-mib", Mib(before - static_cast<long long>(FreeBytes())));
     },
     kAlone},
    {"node.memory.auto-free", kContext,
     [](Answer& out) {
       const Graph g;
       CUDA_MEM_ALLOC_NODE_PARAMS params = AllocParams(1 << 20);
       CUgraphNode alloc = nullptr;
       CU(cuGraphAddMemAllocNode, &alloc, g.graph, nullptr, 0, &params);
       CUgraphExec exec = nullptr;
       out("instantiate",
           CU(cuGraphInstantiate, &exec, g.graph,
              static_cast<unsigned long long>(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)));
       out("first", CU(cuGraphLaunch, exec, nullptr));
       out("second", CU(cuGraphLaunch, exec, nullptr));
       CU(cuCtxSynchronize);
       GraphMemory(out);
     },
     kOwnProcess},
    {"node.memory.bad", kContext,
     [](Answer& out) {
       const Graph g;
       CUDA_MEM_ALLOC_NODE_PARAMS params = AllocParams(0);
       CUgraphNode node = nullptr;
       out("zero", CU(cuGraphAddMemAllocNode, &node, g.graph, nullptr, 0, &params));
       out("null", CU(cuGraphAddMemAllocNode, &node, g.graph, nullptr, 0, nullptr));
       params = AllocParams(4096);
       params.poolProps.location.id = 1000;
       out("device", CU(cuGraphAddMemAllocNode, &node, g.graph, nullptr, 0, &params));
       out("free-junk", CU(cuGraphAddMemFreeNode, &node, g.graph, nullptr, 0, 0x1234));
     }},
    {"node.memory.two-execs", kContext,
     [](Answer& out) {
       const Graph g;
       CUDA_MEM_ALLOC_NODE_PARAMS params = AllocParams(4096);
       CUgraphNode node = nullptr;
       CU(cuGraphAddMemAllocNode, &node, g.graph, nullptr, 0, &params);
       CUgraphExec first = nullptr;
       CUgraphExec second = nullptr;
       out("first", CU(cuGraphInstantiate, &first, g.graph, 0U));
       out("second", CU(cuGraphInstantiate, &second, g.graph, 0U));
       CUgraph clone = nullptr;
       out("clone", CU(cuGraphClone, &clone, g.graph));
     },
     kOwnProcess},
    {"node.conditional", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphConditionalHandle handle = 0;
       out("handle", CU(cuGraphConditionalHandleCreate, &handle, g.graph, PrimaryContext(), 0U,
                        unsigned{CU_GRAPH_COND_ASSIGN_DEFAULT}));
       CUgraphNodeParams params{};
       params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
       params.conditional.handle = handle;
       params.conditional.type = CU_GRAPH_COND_TYPE_IF;
       params.conditional.size = 1;
       params.conditional.ctx = PrimaryContext();
       CUgraphNode node = nullptr;
       out("add", CU(cuGraphAddNode, &node, g.graph, nullptr, nullptr, 0, &params));
       Type(out, node);
       CUgraph body =
           params.conditional.phGraph_out == nullptr ? nullptr : params.conditional.phGraph_out[0];
       out("body", body != nullptr);
       CUgraphNode inner = nullptr;
       out("inner", CU(cuGraphAddEmptyNode, &inner, body, nullptr, 0));
       CUgraphExec exec = nullptr;
       out("instantiate", CU(cuGraphInstantiate, &exec, g.graph, 0U));
       out("launch", CU(cuGraphLaunch, exec, nullptr));
       out("sync", CU(cuCtxSynchronize));
       CU(cuGraphExecDestroy, exec);
     },
     kOwnProcess},
    {"node.conditional.bad", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphConditionalHandle handle = 0;
       out("null", CU(cuGraphConditionalHandleCreate, nullptr, g.graph, PrimaryContext(), 0U, 0U));
       out("flags", CU(cuGraphConditionalHandleCreate, &handle, g.graph, PrimaryContext(), 0U, 8U));
       CUgraphNodeParams params{};
       params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
       params.conditional.type = CU_GRAPH_COND_TYPE_IF;
       params.conditional.size = 1;
       CUgraphNode node = nullptr;
       out("no-handle", CU(cuGraphAddNode, &node, g.graph, nullptr, nullptr, 0, &params));
       CU(cuGraphConditionalHandleCreate, &handle, g.graph, PrimaryContext(), 0U, 0U);
       params.conditional.handle = handle;
       params.conditional.ctx = PrimaryContext();
       params.conditional.size = 3;
       out("size-3", CU(cuGraphAddNode, &node, g.graph, nullptr, nullptr, 0, &params));
     },
     kOwnProcess},
    {"node.any.kernel", kContext,
     [](Answer& out) {
       const Graph g;
       CUgraphNodeParams params{};
       params.type = CU_GRAPH_NODE_TYPE_KERNEL;
       params.kernel.func = Kernel("empty");
       params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
       params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
       CUgraphNode node = nullptr;
       out("add", CU(cuGraphAddNode, &node, g.graph, nullptr, nullptr, 0, &params));
       Type(out, node);
       params.type = Odd<CUgraphNodeType>(77);
       out("bad-type", CU(cuGraphAddNode, &node, g.graph, nullptr, nullptr, 0, &params));
       params.type = CU_GRAPH_NODE_TYPE_EMPTY;
       params.reserved0[0] = 1;
       out("reserved", CU(cuGraphAddNode, &node, g.graph, nullptr, nullptr, 0, &params));
     }},
    {"node.batch-memory-operations", kContext,
     [](Answer& out) {
       const Graph g;
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 64);
       CUstreamBatchMemOpParams operation{};
       operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
       operation.writeValue.address = pointer;
       operation.writeValue.value = 3;
       CUDA_BATCH_MEM_OP_NODE_PARAMS params{};
       params.ctx = PrimaryContext();
       params.count = 1;
       params.paramArray = &operation;
       CUgraphNode node = nullptr;
       out("add", CU(cuGraphAddBatchMemOpNode, &node, g.graph, nullptr, 0, &params));
       Type(out, node);
       CU(cuMemFree, pointer);
     }},
    {"node.type.null", kContext,
     [](Answer& out) {
       CUgraphNodeType type{};
       out(CU(cuGraphNodeGetType, nullptr, &type));
     }},
};

}  // namespace

std::span<const Case> GraphNodeCases() { return kCases; }

}  // namespace krux::sim::conformance
