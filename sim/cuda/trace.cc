#include "sim/cuda/trace.h"

#include <cuda.h>

#include <cstdio>
#include <cstdlib>

namespace krux::sim {

void TraceMissing(const char* what, const char* name) {
  static const bool is_on = [] {
    const char* trace = std::getenv("KRUX_SIM_TRACE");
    return trace != nullptr && trace[0] != '\0' && trace[0] != '0';
  }();
  if (is_on) std::fprintf(stderr, "simulated GPU: %s %s\n", what, name);
}

}  // namespace krux::sim

// What every call without a model does (sim/names.cmake).
extern "C" [[gnu::visibility("hidden")]] int KruxSimRefuse(const char* name);
int KruxSimRefuse(const char* name) {
  krux::sim::TraceMissing("refused", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}
