#include "bench/gpu/tenant/card.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "bench/gpu/tenant/kernels.h"

namespace krux::bench {

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  std::fprintf(stderr, "krux-bench-tenant: %s: %s (%d)\n", what,
               text != nullptr ? text : "unknown error", static_cast<int>(result));
  std::exit(1);
}

Card::Card() {
  Check(cuInit(0), "cuInit");
  Check(cuDeviceGet(&device_, 0), "cuDeviceGet");
  Check(cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  Check(cuCtxSetCurrent(context_), "cuCtxSetCurrent");
  Check(cuStreamCreate(&own_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  Check(cuMemAlloc(&out_, 4096), "cuMemAlloc");
  int count = 0;
  Check(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_),
        "cuDeviceGetAttribute");
  multiprocessors_ = static_cast<unsigned>(count);
}

CUstream Card::Stream(StreamKind kind) const {
  if (kind == StreamKind::kLegacy) return nullptr;
  return kind == StreamKind::kPerThread ? CU_STREAM_PER_THREAD : own_;
}

CUfunction Card::Load(const char* name) const {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  Check(cuModuleLoadData(&module, kKernelsPtx), "cuModuleLoadData");
  Check(cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
  return function;
}

Work Card::MakeWork(unsigned iterations, unsigned multiprocessors, unsigned graph) {
  Work work;
  work.function = Load("fma_loop");
  work.blocks = (multiprocessors == 0 ? multiprocessors_ : multiprocessors) * 8;
  work.iterations = iterations;
  if (graph <= 1) return work;
  CUgraph captured = nullptr;
  Check(cuStreamBeginCapture(own_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
  for (unsigned i = 0; i < graph; ++i) LaunchKernel(work, own_);
  Check(cuStreamEndCapture(own_, &captured), "cuStreamEndCapture");
  Check(cuGraphInstantiateWithFlags(&work.graph, captured, 0), "cuGraphInstantiate");
  Check(cuGraphDestroy(captured), "cuGraphDestroy");
  work.kernels = graph;
  return work;
}

Work Card::MakeEmpty() {
  Work work;
  work.function = Load("empty_kernel");
  return work;
}

void Card::LaunchKernel(const Work& work, CUstream stream) const {
  CUdeviceptr out = out_;
  unsigned iterations = work.iterations;
  void* arguments[] = {&out, &iterations};
  const bool empty = work.blocks == 0;
  Check(cuLaunchKernel(work.function, std::max(work.blocks, 1U), 1, 1, empty ? 32 : 256, 1, 1, 0,
                       stream, empty ? nullptr : arguments, nullptr),
        "cuLaunchKernel");
}

void Card::Launch(const Work& work, CUstream stream) const {
  if (work.graph == nullptr) return LaunchKernel(work, stream);
  Check(cuGraphLaunch(work.graph, stream), "cuGraphLaunch");
}

unsigned Card::Calibrate(double us, unsigned multiprocessors) {
  CUevent begin = nullptr;
  CUevent end = nullptr;
  Check(cuEventCreate(&begin, CU_EVENT_DEFAULT), "cuEventCreate");
  Check(cuEventCreate(&end, CU_EVENT_DEFAULT), "cuEventCreate");
  Work work = MakeWork(std::max(10U, static_cast<unsigned>(us * 50)), multiprocessors, 1);
  const int launches = std::clamp(static_cast<int>(40'000 / us), 4, 400);
  // The first round warms up the clocks; the others come closer.
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 2; ++i) Launch(work, own_);
    Check(cuEventRecord(begin, own_), "cuEventRecord");
    for (int i = 0; i < launches; ++i) Launch(work, own_);
    Check(cuEventRecord(end, own_), "cuEventRecord");
    Check(cuEventSynchronize(end), "cuEventSynchronize");
    float milliseconds = 0;
    Check(cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime");
    const double measured = static_cast<double>(milliseconds) * 1000 / launches;
    if (measured > 0) work.iterations = static_cast<unsigned>(work.iterations * us / measured) + 1;
  }
  return work.iterations;
}

}  // namespace krux::bench
