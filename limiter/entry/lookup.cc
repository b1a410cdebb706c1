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

bool MayBeOurs(const char* name) {
  return name != nullptr &&
         ((name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v'));
}

bool BeginsWith(const char* text, const char* prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

// `real` is what the asked handle holds. It is replaced when it lies in a driver library (or in
// ourselves, which RTLD_DEFAULT finds first); a symbol of the same name elsewhere is not ours.
void* Replaced(const char* name, void* real) {
  if (real == nullptr) return nullptr;
  if (const Hook* hook = FindHookByName(name)) {
    const char* object = ObjectNameOf(real);
    return BeginsWith(object, "libcuda.so") ? hook->ours : real;
  }
  if (void* ours = FindNvmlHook(name)) {
    return BeginsWith(ObjectNameOf(real), "libnvidia-ml.so") ? ours : real;
  }
  return real;
}

CUresult ReplaceProcAddress(CUresult result, void** function) {
  if (result != CUDA_SUCCESS || function == nullptr || *function == nullptr) return result;
  if (void* ours = FindOursByRealAddress(*function)) *function = ours;
  return result;
}

}  // namespace

KRUX_EXPORT void* dlsym(void* handle, const char* name) noexcept {
  const DlsymFunction real = RealDlsym();
  if (!MayBeOurs(name)) KRUX_TAIL_CALL real(handle, name);
  // RTLD_NEXT of a library behind us is resolved from here: the driver is behind us as well.
  return Replaced(name, real(handle, name));
}

KRUX_EXPORT void* dlvsym(void* handle, const char* name, const char* version) noexcept {
  const DlvsymFunction real = RealDlvsym();
  if (!MayBeOurs(name)) KRUX_TAIL_CALL real(handle, name, version);
  return Replaced(name, real(handle, name, version));
}

// RTLD_DEEPBIND makes a library look into its own dependencies before the preloaded ones: it would
// see the driver, and the C library's dlsym, without the limiter.
KRUX_EXPORT void* dlopen(const char* file, int flags) noexcept {
  const DlopenFunction real = RealDlopen();
  KRUX_TAIL_CALL real(file, flags & ~RTLD_DEEPBIND);
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return ReplaceProcAddress(Real().cuGetProcAddress(symbol, function, version, flags), function);
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  return ReplaceProcAddress(Real().cuGetProcAddress_v2(symbol, function, version, flags, status),
                            function);
}
