// The real driver: one typed pointer for each symbol that the limiter handles (driver_api.inc) or
// calls itself. Bound once, when the first of them is needed.
//
// A symbol that this driver does not have points to a function that answers
// CUDA_ERROR_NOT_SUPPORTED, so a missing name fails only the call that needs it.
#ifndef KRUX_LIMITER_DRIVER_DRIVER_H_
#define KRUX_LIMITER_DRIVER_DRIVER_H_

#include <cstddef>

#include "limiter/driver/cuda_api.h"

namespace krux::limiter {

struct Driver {
#define KRUX_HOOK(name, symbol_class, since) decltype(&::name) name;
#include "limiter/driver_api.inc"
#undef KRUX_HOOK
#define KRUX_USE(name) decltype(&::name) name;
#include "limiter/driver/driver_used.inc"
#undef KRUX_USE
};

// The bound table. Loads libcuda.so.1 if the program has not. Thread-safe; after the first call one
// load and a branch.
const Driver& Real();

// False when there is no libcuda.so.1: every pointer then answers CUDA_ERROR_NOT_SUPPORTED.
bool DriverPresent();

enum class SymbolClass {
  kInit,
  kLookup,
  kContext,
  kAllocate,
  kFree,
  kPool,
  kVirtual,
  kArray,
  kGraph,
  kModule,
  kQuery,
  kLaunch,
  kCopy,
  kStream,
  kCapture,
  kSync,
  kRefused,
};

// What replaces a handled symbol.
struct Hook {
  const char* name;
  void* ours;  // the exported entry
  void* real;  // the driver's, or nullptr when it has none
  SymbolClass symbol_class;
  int since;  // the CUDA version that brought it
};

// The hook for an exported name; nullptr when the name is not handled. Does not load the driver.
const Hook* FindHookByName(const char* name);
// The hook for what cuGetProcAddress gave: `base` is the name without suffixes, `real` the address.
// The form of that name with that address; when a driver gives an address here that it does not
// give by name, or one for several forms, the newest form of the version and of the stream kind
// asked for. nullptr when the name is not handled.
const Hook* FindHookByAddress(const char* base, const void* real, int version, bool per_thread);
// In a fork child, where the holders of the locks do not exist. The bound table stays.
void ForgetDriverLocks();
// All hooks, for the self-check and the tests.
size_t HookCount();
const Hook& HookAt(size_t index);

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_DRIVER_DRIVER_H_
