// The doors to the driver's symbols: dlsym, dlvsym, cuGetProcAddress. Each asks the real one first
// and replaces an answer that is a handled symbol of the real driver, so versions, handles and
// per-thread default streams stay as they were asked for.
#include <dlfcn.h>
#include <link.h>

#include <cstring>

#include "limiter/driver/driver.h"
#include "limiter/driver/elf_lookup.h"
#include "limiter/driver/loader.h"
#include "limiter/entry/nvml_hooks.h"
#include "limiter/life/log.h"
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
  const char* old_library = nullptr;
};

// The lookup functions themselves, asked of the C library's own handle.
Replacement FindLookupFunction(const char* name);

Replacement FindReplacement(const char* name) {
  if (name == nullptr) return {};
  if (name[0] == 'c' && name[1] == 'u') {
    const Hook* hook = FindHookByName(name);
    if (hook != nullptr) return {hook->ours, "libcuda.so", nullptr};
  } else if (name[0] == 'n' && name[1] == 'v') {
    return {FindNvmlHook(name), "libnvidia-ml.so", nullptr};
  } else if (name[0] == 'd' && name[1] == 'l') {
    return FindLookupFunction(name);
  }
  return {};
}

// `real` is what the asked handle holds. It is replaced when it lies in the driver (RTLD_DEFAULT
// finds ourselves first); a symbol of the same name elsewhere is not ours to replace.
void* Replace(const Replacement& replacement, void* real) {
  if (real == nullptr) return nullptr;
  const char* object = ObjectNameOf(real);
  const bool replaced =
      BeginsWith(object, replacement.library) ||
      (replacement.old_library != nullptr && BeginsWith(object, replacement.old_library));
  return replaced ? replacement.ours : real;
}

void ReplaceProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  if (symbol == nullptr || function == nullptr || *function == nullptr) return;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const Hook* hook = FindHookByAddress(symbol, *function, version, per_thread);
  if (hook != nullptr) *function = hook->ours;
}

}  // namespace

KRUX_EXPORT void* dlmopen(Lmid_t name_space, const char* file, int flags) noexcept;

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

namespace {

bool IsDriver(const char* path) {
  if (path == nullptr) return false;
  const char* slash = strrchr(path, '/');
  const char* name = slash == nullptr ? path : slash + 1;
  return BeginsWith(name, "libcuda.so") || BeginsWith(name, "libnvidia-ml.so");
}

bool NamespaceHasDriver(void* handle) {
  link_map* map = nullptr;
  if (RealDlinfo()(handle, RTLD_DI_LINKMAP, &map) != 0) return false;
  while (map != nullptr && map->l_prev != nullptr) map = map->l_prev;
  for (; map != nullptr; map = map->l_next) {
    if (IsDriver(map->l_name)) return true;
  }
  return false;
}

// Sets dlerror, for the program.
void* RefuseCopy(const char* file) {
  LogLine("%s is refused in a namespace of its own: its calls would not be counted",
          file == nullptr ? "a driver" : file);
  return RealDlopen()("a second copy of the GPU driver (refused by the GPU limiter)", RTLD_LAZY);
}

}  // namespace

// A library in a namespace of its own sees another copy of the driver, and no preloaded library.
KRUX_EXPORT void* dlmopen(Lmid_t name_space, const char* file, int flags) noexcept {
  const DlmopenFunction real = RealDlmopen();
  if (name_space == LM_ID_BASE) KRUX_TAIL_CALL real(name_space, file, flags & ~RTLD_DEEPBIND);
  if (IsDriver(file)) return RefuseCopy(file);
  void* handle = real(name_space, file, flags);
  if (handle == nullptr || !NamespaceHasDriver(handle)) return handle;
  RealDlclose()(handle);
  return RefuseCopy(file);
}

namespace {

Replacement FindLookupFunction(const char* name) {
  const char *now = "libc.so", *before = "libdl.so";
  if (strcmp(name, "dlsym") == 0) return {reinterpret_cast<void*>(&dlsym), now, before};
  if (strcmp(name, "dlvsym") == 0) return {reinterpret_cast<void*>(&dlvsym), now, before};
  if (strcmp(name, "dlopen") == 0) return {reinterpret_cast<void*>(&dlopen), now, before};
  if (strcmp(name, "dlmopen") == 0) return {reinterpret_cast<void*>(&dlmopen), now, before};
  return {};
}

}  // namespace

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
