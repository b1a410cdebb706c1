#include "limiter/life/self_check.h"

#include <dlfcn.h>

#include "limiter/driver/driver.h"
#include "limiter/driver/loader.h"

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle,
                                                              const char* name) noexcept;

namespace krux::limiter {

Problem CheckHooksAreLive() {
  const DlsymFunction find = RealDlsym();
  if (find == nullptr) return Problem::Because("the loader's dlsym was not found");
  for (size_t i = 0; i < HookCount(); ++i) {
    const Hook& hook = HookAt(i);
    if (find(RTLD_DEFAULT, hook.name) != hook.ours) {
      return Problem::Because("%s does not lead through the limiter (is it preloaded first?)",
                              hook.name);
    }
  }
  if (find(RTLD_DEFAULT, "dlsym") != reinterpret_cast<void*>(&dlsym)) {
    return Problem::Because("dlsym does not lead through the limiter (is it preloaded first?)");
  }
  return Problem::None();
}

}  // namespace krux::limiter
