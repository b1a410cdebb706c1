// krux-demo: a plain CUDA driver API program. It knows nothing of Krux: it is linked to
// libcuda.so.1 like any other, and what it finds (a small card, a share of the time) is what any
// program in its place would find.
//
//   krux-demo calibrate [--kernel-us 2000]   prints the loop count of a kernel of that length
//   krux-demo facts                          prints one JSON line: the GPUs it finds, and how much
//                                            memory the first of them gives until it refuses
//   krux-demo saturate --iters N [--seconds S] [--no-memory]
//       the facts, then keeps the GPU busy; prints one JSON line a second: time, kernels finished
//       since the start
#include <cuda.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "examples/demo/kernel.h"

namespace {

constexpr size_t kMiB = 1024 * 1024;

// Ends the program when a CUDA call fails; the text is CUDA's own.
void Check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  std::fprintf(stderr, "krux-demo: %s: %s (%d)\n", what, text != nullptr ? text : "unknown error",
               static_cast<int>(result));
  std::exit(1);
}

double Now(clockid_t clock) {
  timespec ts{};
  clock_gettime(clock, &ts);
  return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) / 1e9;
}

struct Gpu {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUfunction kernel = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr out = 0;
  unsigned blocks = 0;
};

Gpu Open() {
  Gpu gpu;
  Check(cuInit(0), "cuInit");
  Check(cuDeviceGet(&gpu.device, 0), "cuDeviceGet");
  Check(cuDevicePrimaryCtxRetain(&gpu.context, gpu.device), "cuDevicePrimaryCtxRetain");
  Check(cuCtxSetCurrent(gpu.context), "cuCtxSetCurrent");
  CUmodule module = nullptr;
  Check(cuModuleLoadData(&module, kFmaLoopPtx), "cuModuleLoadData");
  Check(cuModuleGetFunction(&gpu.kernel, module, "fma_loop"), "cuModuleGetFunction");
  Check(cuStreamCreate(&gpu.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  int multiprocessors = 0;
  Check(
      cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device),
      "cuDeviceGetAttribute");
  gpu.blocks = static_cast<unsigned>(multiprocessors) * 8;
  return gpu;
}

void Launch(const Gpu& gpu, unsigned iterations) {
  CUdeviceptr out = gpu.out;
  void* arguments[] = {&out, &iterations};
  Check(cuLaunchKernel(gpu.kernel, gpu.blocks, 1, 1, 256, 1, 1, 0, gpu.stream, arguments, nullptr),
        "cuLaunchKernel");
}

// How the program finds its card: total, free at the start, and where the first refusal comes.
struct MemoryFacts {
  size_t total_bytes = 0;
  size_t taken_at_start = 0;   // context and module
  size_t held_at_refusal = 0;  // all that was held when 2 MiB more were refused
};

MemoryFacts FillUntilRefused(const Gpu& gpu) {
  MemoryFacts facts;
  Check(cuDeviceTotalMem(&facts.total_bytes, gpu.device), "cuDeviceTotalMem");
  size_t free_bytes = 0;
  size_t total = 0;
  Check(cuMemGetInfo(&free_bytes, &total), "cuMemGetInfo");
  facts.taken_at_start = total - free_bytes;
  std::vector<CUdeviceptr> blocks;
  size_t held = facts.taken_at_start;
  for (const size_t block : {64 * kMiB, 2 * kMiB}) {
    CUdeviceptr pointer = 0;
    CUresult result = CUDA_SUCCESS;
    while ((result = cuMemAlloc(&pointer, block)) == CUDA_SUCCESS) {
      blocks.push_back(pointer);
      held += block;
    }
    if (result != CUDA_ERROR_OUT_OF_MEMORY) Check(result, "cuMemAlloc (out of memory expected)");
  }
  facts.held_at_refusal = held;
  for (const CUdeviceptr pointer : blocks) Check(cuMemFree(pointer), "cuMemFree");
  return facts;
}

void PrintFacts(const Gpu& gpu) {
  const MemoryFacts facts = FillUntilRefused(gpu);
  int count = 0;
  Check(cuDeviceGetCount(&count), "cuDeviceGetCount");
  CUuuid uuid{};
  Check(cuDeviceGetUuid(&uuid, gpu.device), "cuDeviceGetUuid");
  std::printf("{\"gpus\":%d,\"uuid\":\"GPU-", count);
  for (int i = 0; i < 16; ++i) {
    std::printf(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                static_cast<unsigned char>(uuid.bytes[i]));
  }
  std::printf("\",\"total_mib\":%zu,\"taken_at_start_mib\":%.1f,\"held_at_refusal_mib\":%.1f}\n",
              facts.total_bytes / kMiB, static_cast<double>(facts.taken_at_start) / kMiB,
              static_cast<double>(facts.held_at_refusal) / kMiB);
  std::fflush(stdout);
}

unsigned Calibrate(Gpu& gpu, double kernel_us) {
  CUevent begin = nullptr;
  CUevent end = nullptr;
  Check(cuEventCreate(&begin, CU_EVENT_DEFAULT), "cuEventCreate");
  Check(cuEventCreate(&end, CU_EVENT_DEFAULT), "cuEventCreate");
  unsigned iterations = 10000;
  // The first round warms up the clocks; the others come closer.
  for (int round = 0; round < 4; ++round) {
    constexpr int kLaunches = 50;
    Launch(gpu, iterations);
    Check(cuEventRecord(begin, gpu.stream), "cuEventRecord");
    for (int i = 0; i < kLaunches; ++i) Launch(gpu, iterations);
    Check(cuEventRecord(end, gpu.stream), "cuEventRecord");
    Check(cuEventSynchronize(end), "cuEventSynchronize");
    float milliseconds = 0;
    Check(cuEventElapsedTime(&milliseconds, begin, end), "cuEventElapsedTime");
    const double measured_us = static_cast<double>(milliseconds) * 1000.0 / kLaunches;
    if (measured_us > 0)
      iterations = static_cast<unsigned>(iterations * kernel_us / measured_us) + 1;
  }
  return iterations;
}

// Two batches in flight: the GPU never waits for the host, the count is of finished kernels.
void Saturate(const Gpu& gpu, unsigned iterations, double seconds) {
  constexpr int kBatch = 4;
  CUevent done[2] = {};
  for (CUevent& event : done)
    Check(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  uint64_t finished = 0;
  const double begin = Now(CLOCK_MONOTONIC);
  double report = begin;
  for (uint64_t batch = 0;; ++batch) {
    if (batch >= 2) {
      Check(cuEventSynchronize(done[batch % 2]), "cuEventSynchronize");
      finished += kBatch;
    }
    for (int i = 0; i < kBatch; ++i) Launch(gpu, iterations);
    Check(cuEventRecord(done[batch % 2], gpu.stream), "cuEventRecord");
    const double now = Now(CLOCK_MONOTONIC);
    if (now >= report) {
      std::printf("{\"time\":%.6f,\"kernels\":%llu}\n", Now(CLOCK_REALTIME),
                  static_cast<unsigned long long>(finished));
      std::fflush(stdout);
      report += 1.0;
    }
    if (seconds > 0 && now - begin >= seconds) break;
  }
  Check(cuCtxSynchronize(), "cuCtxSynchronize");
}

struct Options {
  std::string mode;
  unsigned iterations = 0;
  double seconds = 0;  // 0: until killed
  double kernel_us = 2000;
  bool memory = true;
};

[[noreturn]] void Usage() {
  std::fprintf(stderr,
               "usage: krux-demo calibrate [--kernel-us 2000]\n"
               "       krux-demo facts\n"
               "       krux-demo saturate --iters N [--seconds S] [--no-memory]\n");
  std::exit(2);
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  if (argc < 2) Usage();
  options.mode = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--no-memory") {
      options.memory = false;
      continue;
    }
    if (i + 1 >= argc) Usage();
    const double value = std::atof(argv[++i]);
    if (flag == "--iters" && value >= 1) {
      options.iterations = static_cast<unsigned>(value);
    } else if (flag == "--seconds" && value > 0) {
      options.seconds = value;
    } else if (flag == "--kernel-us" && value >= 1) {
      options.kernel_us = value;
    } else {
      Usage();
    }
  }
  const bool known =
      options.mode == "calibrate" || options.mode == "facts" || options.mode == "saturate";
  if (!known || (options.mode == "saturate" && options.iterations == 0)) Usage();
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  Gpu gpu = Open();
  if (options.mode == "facts" || (options.mode == "saturate" && options.memory)) PrintFacts(gpu);
  if (options.mode == "facts") return 0;
  Check(cuMemAlloc(&gpu.out, 4096), "cuMemAlloc");
  if (options.mode == "calibrate") {
    std::printf("{\"iters\":%u}\n", Calibrate(gpu, options.kernel_us));
    return 0;
  }
  Saturate(gpu, options.iterations, options.seconds);
  return 0;
}
