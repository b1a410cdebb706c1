// Kernels with local memory (a stack, spilled registers): the driver takes it inside a launch, for
// every thread that the GPU can hold, and keeps it. It is charged before the launch that grows it;
// for kernels of graphs when they become nodes.
#include "limiter/driver/relaxed_capture.h"
#include "limiter/entry/entry.h"

namespace krux::limiter {
namespace {

// The handle may be a kernel of a library, which has a function for each context.
bool LocalBytesOf(CUfunction function, int* bytes) {
  constexpr CUfunction_attribute kLocal = CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES;
  if (Real().cuFuncGetAttribute(bytes, kLocal, function) == CUDA_SUCCESS) return true;
  CUfunction loaded = nullptr;
  return Real().cuKernelGetFunction(&loaded, reinterpret_cast<CUkernel>(function)) ==
             CUDA_SUCCESS &&
         Real().cuFuncGetAttribute(bytes, kLocal, loaded) == CUDA_SUCCESS;
}

// Threads that the GPU of the current context holds at a time; 0 when the driver does not say.
uint64_t ThreadsOfGpu() {
  CUdevice device = -1;
  int processors = 0, threads = 0;
  if (Real().cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      Real().cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) !=
          CUDA_SUCCESS ||
      Real().cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
                                  device) != CUDA_SUCCESS ||
      processors <= 0 || threads <= 0) {
    return 0;
  }
  return Product(static_cast<uint64_t>(processors), static_cast<uint64_t>(threads));
}

}  // namespace

bool LocalBytesFit(uint32_t gpu, uint64_t bytes_per_thread, bool* grown) {
  return Self().contexts.GrowLocalMemory(gpu, bytes_per_thread, ThreadsOfGpu(), grown);
}

void LowerLocalBytes(uint32_t gpu, uint64_t bytes_per_thread) {
  Self().contexts.LowerLocalMemory(gpu, bytes_per_thread, ThreadsOfGpu());
}

bool LocalMemoryFits(CUfunction function, bool* grown) {
  Process& self = Self();
  const uint32_t gpu = self.devices.CurrentGpu();
  if (gpu == Devices::kNotGranted) return true;
  const uint64_t key = reinterpret_cast<uint64_t>(function) ^ (uint64_t{gpu} << 56);
  if (self.known_functions.Contains(key)) return true;
  const RelaxedCapture relaxed;  // the first question about a function may load it
  int bytes = 0;
  if (!LocalBytesOf(function, &bytes)) return true;  // not a function: the driver says so
  if (bytes > 0 && !LocalBytesFit(gpu, static_cast<uint64_t>(bytes), grown)) return false;
  self.known_functions.Add(key);
  return true;
}

}  // namespace krux::limiter

namespace {

using namespace krux::limiter;

template <typename Parameters>
CUfunction FunctionOf(const Parameters& parameters) {
  return parameters.func;
}

// The newer generations name a library's kernel instead of a function.
template <typename Parameters>
CUfunction FunctionOrKernelOf(const Parameters& parameters) {
  return parameters.func != nullptr ? parameters.func
                                    : reinterpret_cast<CUfunction>(parameters.kern);
}

CUfunction FunctionOf(const CUDA_KERNEL_NODE_PARAMS_v2& parameters) {
  return FunctionOrKernelOf(parameters);
}
CUfunction FunctionOf(const CUDA_KERNEL_NODE_PARAMS_v3& parameters) {
  return FunctionOrKernelOf(parameters);
}

// A kernel becomes a node, or a node gets another kernel.
template <typename Parameters, typename Call>
CUresult WithKernel(const Parameters* parameters, Call call) {
  const EntryGuard guard;
  bool grown = false;
  if (guard.active() && parameters != nullptr &&
      !LocalMemoryFits(FunctionOf(*parameters), &grown)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return call();
}

const CUDA_KERNEL_NODE_PARAMS_v3* KernelOf(const CUgraphNodeParams* parameters) {
  return parameters != nullptr && parameters->type == CU_GRAPH_NODE_TYPE_KERNEL
             ? &parameters->kernel
             : nullptr;
}

bool TakesMemory(const CUgraphNodeParams* parameters) {
  return parameters != nullptr && parameters->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
}

}  // namespace

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return WithKernel(parameters, [&] {
    return Real().cuGraphAddKernelNode(node, graph, dependencies, count, parameters);
  });
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return WithKernel(parameters, [&] {
    return Real().cuGraphAddKernelNode_v2(node, graph, dependencies, count, parameters);
  });
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node,
                                    const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return WithKernel(parameters,
                    [&] { return Real().cuGraphKernelNodeSetParams(node, parameters); });
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                       const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return WithKernel(parameters,
                    [&] { return Real().cuGraphKernelNodeSetParams_v2(node, parameters); });
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* parameters) {
  return WithKernel(parameters,
                    [&] { return Real().cuGraphExecKernelNodeSetParams(exec, node, parameters); });
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return WithKernel(
      parameters, [&] { return Real().cuGraphExecKernelNodeSetParams_v2(exec, node, parameters); });
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* parameters) {
  return WithKernel(KernelOf(parameters),
                    [&] { return Real().cuGraphNodeSetParams(node, parameters); });
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                  CUgraphNodeParams* parameters) {
  return WithKernel(KernelOf(parameters),
                    [&] { return Real().cuGraphExecNodeSetParams(exec, node, parameters); });
}

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                        size_t count, CUgraphNodeParams* parameters) {
  if (TakesMemory(parameters)) Self().graph_memory.NoteNode();
  return WithKernel(KernelOf(parameters), [&] {
    return Real().cuGraphAddNode(node, graph, dependencies, count, parameters);
  });
}

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* edges, size_t count,
                           CUgraphNodeParams* parameters) {
  if (TakesMemory(parameters)) Self().graph_memory.NoteNode();
  return WithKernel(KernelOf(parameters), [&] {
    return Real().cuGraphAddNode_v2(node, graph, dependencies, edges, count, parameters);
  });
}
