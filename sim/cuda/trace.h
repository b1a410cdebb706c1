// What a program asked for and did not get, for whoever wants to make it run: with KRUX_SIM_TRACE=1
// each refused call, unknown private table and name not found is said on standard error.
#ifndef KRUX_SIM_CUDA_TRACE_H_
#define KRUX_SIM_CUDA_TRACE_H_

namespace krux::sim {

// "simulated GPU: <what> <name>" if tracing is on.
void TraceMissing(const char* what, const char* name);

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_TRACE_H_
