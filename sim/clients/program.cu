// A program as nvcc builds it: launches with <<<>>>, a template, symbols.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

__device__ int counter = 7;

__global__ void vectorAdd(const float* a, const float* b, float* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

template <typename T>
__global__ void Scale(T* values, T factor) {
  values[threadIdx.x] *= factor * counter;
}

static void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) Check(call, #call)

int main() {
  constexpr int kCount = 4096;
  float* a = nullptr;
  float* sum = nullptr;
  static float host[kCount];
  for (int i = 0; i < kCount; ++i) host[i] = i;
  CHECK(cudaMalloc(&a, sizeof host));
  CHECK(cudaMalloc(&sum, sizeof host));
  CHECK(cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice));
  vectorAdd<<<kCount / 256, 256>>>(a, a, sum, kCount);
  Scale<double><<<1, 32>>>(reinterpret_cast<double*>(a), 2.0);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(host, sum, sizeof host, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) {
    if (host[i] != 2.0F * i) return std::printf("sum %d is %f\n", i, host[i]), 1;
  }
  int value = 0;
  CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
  if (value != 7) return std::printf("counter is %d\n", value), 1;
  std::puts("ok");
  return 0;
}
