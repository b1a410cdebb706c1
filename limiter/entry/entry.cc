#include "limiter/entry/entry.h"

namespace krux::limiter {

uint64_t CurrentContextNumber() {
  CUcontext context = nullptr;
  Real().cuCtxGetCurrent(&context);
  return reinterpret_cast<uint64_t>(context);
}

// The driver answers with an error for the legacy stream while another stream of the context
// captures; a launch there fails by itself, so it is passed on untouched too.
bool IsCapturing(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return Real().cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

}  // namespace krux::limiter
