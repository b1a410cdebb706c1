#include "limiter/entry/entry.h"

namespace krux::limiter {

uint64_t CurrentContextNumber() {
  CUcontext context = nullptr;
  Real().cuCtxGetCurrent(&context);
  return reinterpret_cast<uint64_t>(context);
}

bool ChargeOrTrim(uint32_t gpu, uint64_t bytes) {
  Process& self = Self();
  if (self.account.Charge(gpu, bytes)) return true;
  const bool trimmed = self.pools.TrimAll(gpu);
  return (self.graph_memory.Trim(gpu) || trimmed) && self.account.Charge(gpu, bytes);
}

// The driver answers with an error for the legacy stream while another stream of the context
// captures; a launch there fails by itself, so it is passed on untouched too.
bool IsCapturing(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return Real().cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace krux::limiter
