// The doors to the driver's symbols: dlsym, dlvsym, cuGetProcAddress. Each asks the real one first
// and replaces an answer that is a handled symbol of the real driver, so versions, handles and
// per-thread default streams stay as they were asked for.
#include <dlfcn.h>

#include <cstring>

#include "limiter/driver/driver.h"
#include "limiter/driver/elf_lookup.h"
#include "limiter/driver/loader.h"
#include "limiter/entry/nvml_hooks.h"
#include "limiter/life/process.h"

#define KRUX_EXPORT extern "C" __attribute__((visibility("default")))
// The loader looks at the return address to know who asks (RTLD_NEXT, $ORIGIN, namespaces), so a
// call that is not for us must reach it as if we were not there: as a jump.
#define KRUX_TAIL_CALL __attribute__((musttail)) return

namespace {

using namespace krux::limiter;

bool BeginsWith(const char* text, const char* prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

struct Replacement {
  void* ours = nullptr;
  const char* library = nullptr;  // whose symbol it replaces
};

Replacement FindReplacement(const char* name) {
  if (name == nullptr) return {};
  if (name[0] == 'c' && name[1] == 'u') {
    const Hook* hook = FindHookByName(name);
    if (hook != nullptr) return {hook->ours, "libcuda.so"};
  } else if (name[0] == 'n' && name[1] == 'v') {
    return {FindNvmlHook(name), "libnvidia-ml.so"};
  }
  return {};
}

// `real` is what the asked handle holds. It is replaced when it lies in the driver (RTLD_DEFAULT
// finds ourselves first); a symbol of the same name elsewhere is not ours to replace.
void* Replace(const Replacement& replacement, void* real) {
  if (real == nullptr) return nullptr;
  return BeginsWith(ObjectNameOf(real), replacement.library) ? replacement.ours : real;
}

void ReplaceProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  if (symbol == nullptr || function == nullptr || *function == nullptr) return;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const Hook* hook = FindHookByAddress(symbol, *function, version, per_thread);
  if (hook != nullptr) *function = hook->ours;
}

}  // namespace

KRUX_EXPORT void* dlsym(void* handle, const char* name) noexcept {
  const DlsymFunction real = RealDlsym();
  const Replacement replacement = FindReplacement(name);
  if (replacement.ours == nullptr) KRUX_TAIL_CALL real(handle, name);
  // RTLD_NEXT of a library behind us is resolved from here: the driver is behind us as well.
  return Replace(replacement, real(handle, name));
}

KRUX_EXPORT void* dlvsym(void* handle, const char* name, const char* version) noexcept {
  const DlvsymFunction real = RealDlvsym();
  const Replacement replacement = FindReplacement(name);
  if (replacement.ours == nullptr) KRUX_TAIL_CALL real(handle, name, version);
  return Replace(replacement, real(handle, name, version));
}

// RTLD_DEEPBIND makes a library look into its own dependencies before the preloaded ones: it would
// see the driver, and the C library's dlsym, without the limiter.
KRUX_EXPORT void* dlopen(const char* file, int flags) noexcept {
  const DlopenFunction real = RealDlopen();
  KRUX_TAIL_CALL real(file, flags & ~RTLD_DEEPBIND);
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  const CUresult result = Real().cuGetProcAddress(symbol, function, version, flags);
  if (result == CUDA_SUCCESS) ReplaceProcAddress(symbol, function, version, flags);
  return result;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  const CUresult result = Real().cuGetProcAddress_v2(symbol, function, version, flags, status);
  if (result == CUDA_SUCCESS) ReplaceProcAddress(symbol, function, version, flags);
  return result;
}
