#include "sim/cuda/compute.h"

#include <algorithm>
#include <cstring>

#include "sim/cuda/memory.h"
#include "sim/cuda/module.h"

namespace krux::sim {
namespace {

template <typename T>
T* Elements(const KernelArguments& arguments, uint64_t address, uint64_t count) {
  if (count > (uint64_t{1} << 40)) return nullptr;
  return static_cast<T*>(arguments.Memory(address, count * sizeof(T)));
}

// (const float* a, const float* b, float* sum, n)
CUresult Add(const KernelArguments& arguments) {
  const uint64_t count = arguments.Number(3);
  const float* a = Elements<float>(arguments, arguments.Number(0), count);
  const float* b = Elements<float>(arguments, arguments.Number(1), count);
  float* sum = Elements<float>(arguments, arguments.Number(2), count);
  if (a == nullptr || b == nullptr || sum == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (uint64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
  return CUDA_SUCCESS;
}

// (n, float a, const float* x, float* y): y += a * x
CUresult Saxpy(const KernelArguments& arguments) {
  const uint64_t count = arguments.Number(0);
  const float a = arguments.Float(1);
  const float* x = Elements<float>(arguments, arguments.Number(2), count);
  float* y = Elements<float>(arguments, arguments.Number(3), count);
  if (x == nullptr || y == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (uint64_t i = 0; i < count; ++i) y[i] += a * x[i];
  return CUDA_SUCCESS;
}

// `count` elements at `address`, each as wide as the parameter `value`.
CUresult FillWith(const KernelArguments& arguments, uint64_t address, size_t value,
                  uint64_t count) {
  const size_t width = arguments.BytesOf(value);
  char* to = count > (uint64_t{1} << 40)
                 ? nullptr
                 : static_cast<char*>(arguments.Memory(address, count * width));
  if (to == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * width, arguments.Raw(value), width);
  return CUDA_SUCCESS;
}

// (T* out, T value, n)
CUresult Fill(const KernelArguments& arguments) {
  return FillWith(arguments, arguments.Number(0), 1, arguments.Number(2));
}

// (float* to, const float* from, n)
CUresult Copy(const KernelArguments& arguments) {
  const uint64_t count = arguments.Number(2);
  float* to = Elements<float>(arguments, arguments.Number(0), count);
  const float* from = Elements<float>(arguments, arguments.Number(1), count);
  if (to == nullptr || from == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  std::memmove(to, from, count * sizeof(float));
  return CUDA_SUCCESS;
}

// PyTorch's fill_: (int n, FillFunctor{T value}, array of one pointer)
CUresult TorchFill(const KernelArguments& arguments) {
  return FillWith(arguments, arguments.Number(2), 1, arguments.Number(0));
}

// PyTorch's sum of two float tensors: (int n, CUDAFunctor_add{float alpha}, out, a, b)
CUresult TorchAdd(const KernelArguments& arguments) {
  uint64_t pointers[3];
  if (arguments.BytesOf(2) != sizeof pointers) return CUDA_SUCCESS;
  std::memcpy(pointers, arguments.Raw(2), sizeof pointers);
  const uint64_t count = arguments.Number(0);
  const float alpha = arguments.Float(1);
  float* out = Elements<float>(arguments, pointers[0], count);
  const float* a = Elements<float>(arguments, pointers[1], count);
  const float* b = Elements<float>(arguments, pointers[2], count);
  if (out == nullptr || a == nullptr || b == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (uint64_t i = 0; i < count; ++i) out[i] = a[i] + alpha * b[i];
  return CUDA_SUCCESS;
}

template <CUresult kError>
CUresult Fail(const KernelArguments&) {
  return kError;
}

constexpr NamedKernel kNamedKernels[] = {
    {"vectorAdd", nullptr, 4, Add},
    {"vector_add", nullptr, 4, Add},
    {"vecAdd", nullptr, 4, Add},
    {"saxpy", nullptr, 4, Saxpy},
    {"fill", nullptr, 3, Fill},
    {"fill_float", nullptr, 3, Fill},
    {"copy_float", nullptr, 3, Copy},
    {"vectorized_elementwise_kernel", "FillFunctor", 3, TorchFill},
    {"vectorized_elementwise_kernel", "CUDAFunctor_addIfEE", 3, TorchAdd},
    {"illegal_address", nullptr, 0, Fail<CUDA_ERROR_ILLEGAL_ADDRESS>},
    {"illegal_instruction", nullptr, 0, Fail<CUDA_ERROR_ILLEGAL_INSTRUCTION>},
    {"device_assert", nullptr, 0, Fail<CUDA_ERROR_ASSERT>},
    {"launch_failure", nullptr, 0, Fail<CUDA_ERROR_LAUNCH_FAILED>},
};

bool Matches(const NamedKernel& row, const std::string& symbol) {
  if (row.also_has == nullptr) return MatchesName(symbol, row.name);
  return symbol.find(row.name) != std::string::npos &&
         symbol.find(row.also_has) != std::string::npos;
}

}  // namespace

size_t KernelArguments::count() const { return function_.parameters.size(); }

size_t KernelArguments::BytesOf(size_t index) const { return function_.parameters[index].bytes; }

const char* KernelArguments::Raw(size_t index) const {
  return packed_ + function_.parameters[index].offset;
}

uint64_t KernelArguments::Number(size_t index) const {
  uint64_t value = 0;
  std::memcpy(&value, Raw(index), std::min(BytesOf(index), sizeof value));
  return value;
}

float KernelArguments::Float(size_t index) const {
  float value = 0;
  std::memcpy(&value, Raw(index), std::min(BytesOf(index), sizeof value));
  return value;
}

void* KernelArguments::Memory(uint64_t address, uint64_t bytes) const {
  Allocation allocation;
  static char nothing;
  if (bytes == 0) return &nothing;
  return FindAllocation(address, &allocation) ? BackingOf(address, bytes) : nullptr;
}

bool MatchesName(const std::string& symbol, const std::string& name) {
  return symbol == name || symbol.rfind("_Z" + std::to_string(name.size()) + name, 0) == 0;
}

const NamedKernel* FindNamedKernel(const std::string& symbol, size_t parameters) {
  for (const NamedKernel& row : kNamedKernels) {
    if (row.parameters == parameters && Matches(row, symbol)) return &row;
  }
  return nullptr;
}

}  // namespace krux::sim
