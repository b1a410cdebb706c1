// The few kernels that really compute, found by name: fills, copies, sums, so that programs can
// check results; and kernels that fail as a faulty kernel does. All others take time and do
// nothing.
//
// A row of kNamedKernels in compute.cc is all that a new one needs.
#ifndef KRUX_SIM_CUDA_COMPUTE_H_
#define KRUX_SIM_CUDA_COMPUTE_H_

#include <cuda.h>

#include <string>
#include <vector>

namespace krux::sim {

struct Function;

// What a launch's parameters are, in order; read by the kernels below.
class KernelArguments {
 public:
  KernelArguments(const Function& function, const char* packed)
      : function_(function), packed_(packed) {}
  size_t count() const;
  size_t BytesOf(size_t index) const;
  // The bytes of one parameter.
  const char* Raw(size_t index) const;
  // A parameter of 1, 2, 4 or 8 bytes as a number.
  uint64_t Number(size_t index) const;
  float Float(size_t index) const;
  // Where `bytes` at the device address lie; null when not all of them are valid memory.
  void* Memory(uint64_t address, uint64_t bytes) const;

 private:
  const Function& function_;
  const char* packed_;
};

struct NamedKernel {
  const char* name;      // of the source; matches its mangled form too
  const char* also_has;  // null, or: `name` and this are parts of the mangled name
  size_t parameters;     // how many it has: a kernel of the same name and another form is not it
  CUresult (*run)(const KernelArguments& arguments);  // an error other than success is sticky
};

// Null when no kernel of that name computes.
const NamedKernel* FindNamedKernel(const std::string& symbol, size_t parameters);
// "fma_loop", or its mangled form "_Z8fma_loop...".
bool MatchesName(const std::string& symbol, const std::string& name);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_COMPUTE_H_
