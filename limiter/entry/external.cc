// Memory of other interfaces (Vulkan, OpenGL, DMA buffers) that a program imports: charged to the
// importer, since whoever made it is not counted by CUDA. And launches on several devices at once.
#include "limiter/entry/entry.h"
#include "limiter/life/log.h"

namespace {

using namespace krux::limiter;

uint64_t NumberOf(CUexternalMemory memory) { return reinterpret_cast<uint64_t>(memory); }

}  // namespace

CUresult cuImportExternalMemory(CUexternalMemory* memory,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* description) {
  const auto call = [&] { return Real().cuImportExternalMemory(memory, description); };
  const EntryGuard guard;
  if (!guard.active() || memory == nullptr || description == nullptr) return call();
  const uint64_t size = OwnBytes(description->size);
  return ChargedAllocation(
      Self().devices.CurrentGpu(), size, call, [&] { return size; },
      [&] { return NumberOf(*memory); }, [&] { Real().cuDestroyExternalMemory(*memory); },
      Listed::kNo);
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuDestroyExternalMemory(memory);
  return ChargedFree(NumberOf(memory), [&] { return Real().cuDestroyExternalMemory(memory); });
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS* launches, unsigned int count,
                                              unsigned int flags) {
  const EntryGuard guard;
  if (guard.active()) {
    LogLine("cuLaunchCooperativeKernelMultiDevice is refused: CUDA itself has given it up");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return Real().cuLaunchCooperativeKernelMultiDevice(launches, count, flags);
}
