// The limiter's own calls that a capture in this thread or in another one would forbid, or that
// would break it: made while an object of this class lives.
// Thread rule: a local variable of one thread.
#ifndef KRUX_LIMITER_DRIVER_RELAXED_CAPTURE_H_
#define KRUX_LIMITER_DRIVER_RELAXED_CAPTURE_H_

#include "limiter/driver/driver.h"

namespace krux::limiter {

class RelaxedCapture {
 public:
  RelaxedCapture() { Real().cuThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { Real().cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_DRIVER_RELAXED_CAPTURE_H_
