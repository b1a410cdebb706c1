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
#define KRUX_HOOK(name, symbol_class, since) \
  {#name, reinterpret_cast<void*>(&::name), nullptr, SymbolClass::symbol_class, since},
#include "limiter/driver_api.inc"
#undef KRUX_HOOK
};

Driver driver;
std::atomic<const Driver*> bound;
std::atomic<bool> present;
Lock bind_lock;
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
#define KRUX_HOOK(name, symbol_class, since) Bind(handle, #name, &driver.name);
#include "limiter/driver_api.inc"
#undef KRUX_HOOK
#define KRUX_USE(name) Bind(handle, #name, &driver.name);
#include "limiter/driver/driver_used.inc"
#undef KRUX_USE
  for (Hook& hook : hooks) {
    hook.real = handle == nullptr ? nullptr : RealDlsym()(handle, hook.name);
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

namespace {

// "cuMemAlloc" is the base of cuMemAlloc_v2; per-thread-default-stream forms end in _ptsz or _ptds.
bool IsFormOf(const char* name, const char* base, bool* per_thread) {
  const size_t length = strlen(base);
  if (strncmp(name, base, length) != 0) return false;
  const char* rest = name + length;
  if (rest[0] == '_' && rest[1] == 'v' && rest[2] >= '2' && rest[2] <= '9') rest += 3;
  *per_thread = strcmp(rest, "_ptsz") == 0 || strcmp(rest, "_ptds") == 0;
  return *per_thread || rest[0] == '\0';
}

// How well a form answers the request; higher is better.
int Rank(const Hook& hook, const void* real, bool form_per_thread, bool per_thread) {
  return (hook.real == real ? 1 << 30 : 0) + (form_per_thread == per_thread ? 1 << 29 : 0) +
         hook.since;
}

}  // namespace

const Hook* FindHookByAddress(const char* base, const void* real, int version, bool per_thread) {
  Real();
  const Hook* best = nullptr;
  int best_rank = 0;
  for (const Hook& hook : hooks) {
    bool form_per_thread = false;
    if (hook.since > version || !IsFormOf(hook.name, base, &form_per_thread)) continue;
    const int rank = Rank(hook, real, form_per_thread, per_thread);
    // A per-thread form must not answer for the legacy stream.
    if ((form_per_thread && !per_thread && hook.real != real) || rank <= best_rank) continue;
    best = &hook;
    best_rank = rank;
  }
  return best;
}

void ForgetDriverLocks() {
  bind_lock.Forget();
  names_lock.Forget();
}

size_t HookCount() { return sizeof hooks / sizeof hooks[0]; }
const Hook& HookAt(size_t index) { return hooks[index]; }

}  // namespace krux::limiter
