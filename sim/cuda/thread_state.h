// What the driver keeps per thread: the stack of contexts, per-thread streams, the capture mode.
#ifndef KRUX_SIM_CUDA_THREAD_STATE_H_
#define KRUX_SIM_CUDA_THREAD_STATE_H_

#include <cuda.h>

#include <cstdint>

namespace krux::sim {

struct Context;
struct Stream;

constexpr int kContextStackDepth = 64;

struct ThreadState {
  Context* contexts[kContextStackDepth] = {};
  int depth = 0;
  // The per-thread stream of the context used last (others are found again by their owner).
  Stream* stream = nullptr;
  uint64_t stream_context = 0;
  bool in_host_function = false;  // where calls are not permitted
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
ThreadState& ThisThread();

}  // namespace krux::sim

#endif  // KRUX_SIM_CUDA_THREAD_STATE_H_
