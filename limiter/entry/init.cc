// cuInit: the limiter starts before the driver does, or the driver does not start at all.
#include "limiter/entry/entry.h"
#include "limiter/life/log.h"

namespace {

using namespace krux::limiter;

// Said by cuInit when there are no valid limits or no agent. Programs print it as "operation not
// permitted"; the reason is on standard error.
constexpr CUresult kFailClosed = CUDA_ERROR_NOT_PERMITTED;

CUresult Refuse(const Problem& problem) {
  LogLine("no CUDA in this process: %s", problem.text);
  return kFailClosed;
}

}  // namespace

CUresult cuInit(unsigned int flags) {
  if (!DriverPresent()) return CUDA_ERROR_NO_DEVICE;
  if (Self().ready()) return Real().cuInit(flags);
  if (Problem problem = StartBeforeDriver()) return Refuse(problem);
  const CUresult result = Real().cuInit(flags);
  if (result != CUDA_SUCCESS) return result;
  if (Problem problem = StartAfterDriver()) return Refuse(problem);
  return CUDA_SUCCESS;
}
