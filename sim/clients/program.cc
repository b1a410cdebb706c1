// A program on the CUDA runtime, built against each runtime that is tested (scripts/test-clients).
// It registers its kernels by the calls that nvcc writes, so that one source fits runtimes 11.8
// to 13.0.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

// What the code that nvcc writes calls: not in the headers, but part of each runtime's exports.
extern "C" {
void** __cudaRegisterFatBinary(const void* wrapper);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* stub, char* device_name, const char* name,
                            int thread_limit, void* tid, void* bid, void* block, void* grid,
                            int* warp_size);
void __cudaRegisterVar(void** handle, char* shadow, char* device_name, const char* name,
                       int is_external, size_t bytes, int is_constant, int is_global);
extern const char kernels_fatbin[];
}
asm(".section .rodata\n.balign 16\n.globl kernels_fatbin\nkernels_fatbin:\n"
    ".incbin \"" KERNELS_FATBIN "\"\n.previous\n");

namespace {

// Host addresses that stand for device objects.
char vector_add_stub;
char spills_stub;
int counter_shadow;

struct Wrapper {
  int magic;
  int version;
  const void* data;
  void* file;
};
const Wrapper wrapper = {0x466243b1, 1, kernels_fatbin, nullptr};

void** Register() {
  void** handle = __cudaRegisterFatBinary(&wrapper);
  static char add[] = "vectorAdd";  // the runtime keeps the pointers
  static char spills[] = "spills";
  static char counter[] = "counter";
  __cudaRegisterFunction(handle, &vector_add_stub, add, "vectorAdd", -1, nullptr, nullptr, nullptr,
                         nullptr, nullptr);
  __cudaRegisterFunction(handle, &spills_stub, spills, "spills", -1, nullptr, nullptr, nullptr,
                         nullptr, nullptr);
  __cudaRegisterVar(handle, reinterpret_cast<char*>(&counter_shadow), counter, "counter", 0,
                    sizeof counter_shadow, 0, 0);
  __cudaRegisterFatBinaryEnd(handle);
  return handle;
}

void Require(bool is_true, const char* what) {
  if (is_true) return;
  std::printf("not so: %s\n", what);
  std::exit(1);
}

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s (%d)\n", what, cudaGetErrorString(error), static_cast<int>(error));
  std::exit(1);
}
#define CHECK(call) Check(call, #call)
#define REQUIRE(condition) Require(condition, #condition)

constexpr int kCount = 1000;
constexpr size_t kBytes = kCount * sizeof(float);

struct Vectors {
  float* a = nullptr;
  float* b = nullptr;
  float* sum = nullptr;
};

Vectors MakeVectors() {
  Vectors v;
  std::vector<float> host(kCount);
  for (int i = 0; i < kCount; ++i) host[i] = static_cast<float>(i);
  CHECK(cudaMalloc(reinterpret_cast<void**>(&v.a), kBytes));
  CHECK(cudaMalloc(reinterpret_cast<void**>(&v.b), kBytes));
  CHECK(cudaMalloc(reinterpret_cast<void**>(&v.sum), kBytes));
  CHECK(cudaMemcpy(v.a, host.data(), kBytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(v.b, v.a, kBytes, cudaMemcpyDeviceToDevice));
  return v;
}

void LaunchAdd(Vectors* v, cudaStream_t stream) {
  int count = kCount;
  void* arguments[] = {&v->a, &v->b, &v->sum, &count};
  CHECK(cudaLaunchKernel(&vector_add_stub, dim3(4), dim3(256), arguments, 0, stream));
}

void RequireSum(const Vectors& v) {
  std::vector<float> host(kCount);
  CHECK(cudaMemcpy(host.data(), v.sum, kBytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) REQUIRE(host[i] == 2.0F * static_cast<float>(i));
}

void TestDevice() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  REQUIRE(count >= 1);
  CHECK(cudaSetDevice(0));
  int major = 0;
  CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  REQUIRE(major >= 7);
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  REQUIRE(properties.multiProcessorCount > 0 && properties.totalGlobalMem > 0);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  REQUIRE(free_bytes < total_bytes && total_bytes == properties.totalGlobalMem);
}

void TestKernels() {
  Vectors v = MakeVectors();
  LaunchAdd(&v, nullptr);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  RequireSum(v);
  int counter = 0;
  CHECK(cudaMemcpyFromSymbol(&counter, &counter_shadow, sizeof counter, 0, cudaMemcpyDeviceToHost));
  REQUIRE(counter == 7);
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, &spills_stub));
  REQUIRE(attributes.sharedSizeBytes == 1024 && attributes.localSizeBytes == 8192);
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &vector_add_stub, 256, 0));
  REQUIRE(blocks > 0);
  void* arguments[] = {&v.a};
  CHECK(cudaLaunchKernel(&spills_stub, dim3(1), dim3(256), arguments, 0, nullptr));
  CHECK(cudaDeviceSynchronize());
}

void TestStreams() {
  Vectors v = MakeVectors();
  cudaStream_t stream;
  cudaEvent_t start;
  cudaEvent_t end;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(start, stream));
  CHECK(cudaMemsetAsync(v.sum, 0xff, kBytes, stream));
  LaunchAdd(&v, stream);
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaEventSynchronize(end));
  float milliseconds = 0;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end));
  REQUIRE(milliseconds > 0);
  RequireSum(v);
  int calls = 0;
  CHECK(cudaLaunchHostFunc(stream, [](void* data) { ++*static_cast<int*>(data); }, &calls));
  CHECK(cudaStreamSynchronize(stream));
  REQUIRE(calls == 1);
  CHECK(cudaStreamDestroy(stream));
}

void TestGraph() {
  Vectors v = MakeVectors();
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemsetAsync(v.sum, 0, kBytes, stream));
  LaunchAdd(&v, stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  REQUIRE(nodes == 2);
  CHECK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  RequireSum(v);
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
}

void TestMemory() {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, size_t{1} << 40) == cudaErrorMemoryAllocation);
  REQUIRE(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaMallocAsync(&block, 1 << 20, nullptr));
  CHECK(cudaFreeAsync(block, nullptr));
  int* managed = nullptr;
  CHECK(cudaMallocManaged(reinterpret_cast<void**>(&managed), 4096, cudaMemAttachGlobal));
  CHECK(cudaMemset(managed, 0, 4096));
  CHECK(cudaDeviceSynchronize());
  REQUIRE(managed[5] == 0);
  void* host = nullptr;
  CHECK(cudaHostAlloc(&host, 4096, cudaHostAllocMapped));
  CHECK(cudaFreeHost(host));
  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, managed));
  REQUIRE(attributes.type == cudaMemoryTypeManaged);
  void* pitched = nullptr;
  size_t pitch = 0;
  CHECK(cudaMallocPitch(&pitched, &pitch, 1000, 10));
  REQUIRE(pitch == 1024);
  CHECK(cudaMemset2D(pitched, pitch, 1, 1000, 10));
  CHECK(cudaFree(pitched));
  CHECK(cudaFree(managed));
}

}  // namespace

int main() {
  void** handle = Register();
  TestDevice();
  TestKernels();
  TestStreams();
  TestGraph();
  TestMemory();
  // All over again in a context that is made anew.
  CHECK(cudaDeviceReset());
  TestKernels();
  __cudaUnregisterFatBinary(handle);
  std::puts("ok");
  return 0;
}
