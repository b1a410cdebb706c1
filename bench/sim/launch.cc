// Nanoseconds of one cuLaunchKernel on the simulated driver. Prints three lines, "case value":
// launches of a kernel with parameters in an own stream, the same in the legacy stream, and a call
// that does nothing (cuCtxGetCurrent) for comparison.
//
// Each figure is the median of 400 batches of 500 calls; between batches the stream runs empty, so
// that no call waits for room in the queue.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr char kPtx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry empty_kernel(.param .u64 out, .param .u32 n)\n{\n ret;\n}\n";
constexpr int kBatches = 400;
constexpr int kCalls = 500;

void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s failed with error %d\n", what, static_cast<int>(result));
  std::exit(1);
}

template <typename F>
double MedianNanoseconds(CUstream stream, F call) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> batches;
  for (int i = 0; i < kBatches; ++i) {
    const Clock::time_point start = Clock::now();
    for (int k = 0; k < kCalls; ++k) call();
    const std::chrono::duration<double, std::nano> taken = Clock::now() - start;
    batches.push_back(taken.count() / kCalls);
    Check(cuStreamSynchronize(stream), "cuStreamSynchronize");
  }
  std::nth_element(batches.begin(), batches.begin() + kBatches / 2, batches.end());
  return batches[kBatches / 2];
}

}  // namespace

int main() {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUstream stream = nullptr;
  Check(cuInit(0), "cuInit");
  Check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  Check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  Check(cuModuleLoadData(&module, kPtx), "cuModuleLoadData");
  Check(cuModuleGetFunction(&kernel, module, "empty_kernel"), "cuModuleGetFunction");
  Check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  CUdeviceptr out = 0;
  unsigned n = 1;
  void* parameters[] = {&out, &n};
  auto launch_in = [&](CUstream in) {
    Check(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, in, parameters, nullptr), "cuLaunchKernel");
  };
  std::printf("launch %.1f\n", MedianNanoseconds(stream, [&] { launch_in(stream); }));
  std::printf("launch-legacy %.1f\n", MedianNanoseconds(nullptr, [&] { launch_in(nullptr); }));
  std::printf("get-current %.1f\n", MedianNanoseconds(stream, [&] { cuCtxGetCurrent(&context); }));
  return 0;
}
