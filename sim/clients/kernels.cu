// Kernels of program.cc. The simulated card computes vectorAdd by its name; the others take time.
__device__ int counter = 7;
__constant__ float table[16];

extern "C" __global__ void vectorAdd(const float* a, const float* b, float* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

// Local memory of 8 KiB a thread, shared memory, a global and a constant.
extern "C" __global__ void spills(float* out) {
  __shared__ float shared[256];
  float local[2048];
  for (int i = 0; i < 2048; ++i) local[i] = out[i];
  shared[threadIdx.x] = local[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = shared[255 - threadIdx.x] + local[static_cast<int>(out[0])] + counter + table[3];
}
