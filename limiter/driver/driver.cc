#include "limiter/driver/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "limiter/driver/loader.h"
#include "limiter/life/lock.h"
#include "limiter/life/table.h"

namespace krux::limiter {
namespace {

constexpr char kDriverLibrary[] = "libcuda.so.1";

// Called through pointers of other types: it takes no argument and the caller cleans the stack.
CUresult MissingInThisDriver() { return CUDA_ERROR_NOT_SUPPORTED; }

Hook hooks[] = {
#define KRUX_HOOK(name, symbol_class) \
  {#name, reinterpret_cast<void*>(&::name), nullptr, SymbolClass::symbol_class},
#include "limiter/driver_api.inc"
#undef KRUX_HOOK
};

Driver driver;
std::atomic<const Driver*> bound;
std::atomic<bool> present;
Lock bind_lock;
Table<void*> ours_by_real;
std::atomic<bool> names_indexed;
Lock names_lock;
Table<const Hook*> hooks_by_name;

uint64_t HashName(const char* name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<uint8_t>(*name)) * 0x100000001b3ULL;
  return hash | 1;
}

void* OpenDriver() {
  const DlopenFunction open = RealDlopen();
  if (open == nullptr) return nullptr;
  void* handle = open(kDriverLibrary, RTLD_LAZY | RTLD_NOLOAD);
  return handle != nullptr ? handle : open(kDriverLibrary, RTLD_LAZY);
}

template <typename Function>
void Bind(void* handle, const char* name, Function* slot) {
  void* found = handle == nullptr ? nullptr : RealDlsym()(handle, name);
  *slot = found != nullptr ? reinterpret_cast<Function>(found)
                           : reinterpret_cast<Function>(&MissingInThisDriver);
}

void BindAll(void* handle) {
#define KRUX_HOOK(name, symbol_class) Bind(handle, #name, &driver.name);
#include "limiter/driver_api.inc"
#undef KRUX_HOOK
#define KRUX_USE(name) Bind(handle, #name, &driver.name);
#include "limiter/driver/driver_used.inc"
#undef KRUX_USE
  for (Hook& hook : hooks) {
    hook.real = handle == nullptr ? nullptr : RealDlsym()(handle, hook.name);
    if (hook.real == nullptr) continue;
    void** ours = ours_by_real.Insert(reinterpret_cast<uint64_t>(hook.real));
    if (ours != nullptr && *ours == nullptr) *ours = hook.ours;
  }
}

const Driver& BindDriver() {
  const LockGuard guard(bind_lock);
  const Driver* ready = bound.load(std::memory_order_acquire);
  if (ready != nullptr) return *ready;
  void* handle = OpenDriver();
  BindAll(handle);
  present.store(handle != nullptr, std::memory_order_release);
  // Without a driver the next call looks again: it may be loaded later, from another folder.
  if (handle != nullptr) bound.store(&driver, std::memory_order_release);
  return driver;
}

}  // namespace

const Driver& Real() {
  const Driver* ready = bound.load(std::memory_order_acquire);
  return __builtin_expect(ready != nullptr, 1) ? *ready : BindDriver();
}

bool DriverPresent() {
  Real();
  return present.load(std::memory_order_acquire);
}

const Hook* FindHookByName(const char* name) {
  const LockGuard guard(names_lock);
  if (!names_indexed.load(std::memory_order_relaxed)) {
    for (const Hook& hook : hooks) {
      if (const Hook** row = hooks_by_name.Insert(HashName(hook.name))) *row = &hook;
    }
    names_indexed.store(true, std::memory_order_relaxed);
  }
  const Hook** found = hooks_by_name.Find(HashName(name));
  return found != nullptr && strcmp((*found)->name, name) == 0 ? *found : nullptr;
}

void* FindOursByRealAddress(const void* real) {
  Real();
  const LockGuard guard(bind_lock);
  void** ours = ours_by_real.Find(reinterpret_cast<uint64_t>(real));
  return ours == nullptr ? nullptr : *ours;
}

void ForgetDriverLocks() {
  bind_lock.Forget();
  names_lock.Forget();
}

size_t HookCount() { return sizeof hooks / sizeof hooks[0]; }
const Hook& HookAt(size_t index) { return hooks[index]; }

}  // namespace krux::limiter
