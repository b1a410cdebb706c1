#include "limiter/driver/loader.h"

#include <atomic>

#include "limiter/driver/elf_lookup.h"

namespace krux::limiter {
namespace {

// dlsym and friends moved from libdl to libc in glibc 2.34, threads from libpthread.
void* FindInLibc(const char* old_home, const char* name) {
  void* found = FindInObject("libc.so", name);
  return found != nullptr ? found : FindInObject(old_home, name);
}

void* Cached(std::atomic<void*>* cache, const char* old_home, const char* name) {
  void* found = cache->load(std::memory_order_acquire);
  if (found == nullptr) {
    found = FindInLibc(old_home, name);
    cache->store(found, std::memory_order_release);
  }
  return found;
}

}  // namespace

DlsymFunction RealDlsym() {
  static std::atomic<void*> cache;
  return reinterpret_cast<DlsymFunction>(Cached(&cache, "libdl.so", "dlsym"));
}

DlvsymFunction RealDlvsym() {
  static std::atomic<void*> cache;
  return reinterpret_cast<DlvsymFunction>(Cached(&cache, "libdl.so", "dlvsym"));
}

DlopenFunction RealDlopen() {
  static std::atomic<void*> cache;
  return reinterpret_cast<DlopenFunction>(Cached(&cache, "libdl.so", "dlopen"));
}

DlmopenFunction RealDlmopen() {
  static std::atomic<void*> cache;
  return reinterpret_cast<DlmopenFunction>(Cached(&cache, "libdl.so", "dlmopen"));
}

DlinfoFunction RealDlinfo() {
  static std::atomic<void*> cache;
  return reinterpret_cast<DlinfoFunction>(Cached(&cache, "libdl.so", "dlinfo"));
}

DlcloseFunction RealDlclose() {
  static std::atomic<void*> cache;
  return reinterpret_cast<DlcloseFunction>(Cached(&cache, "libdl.so", "dlclose"));
}

ThreadFunctions RealThreadFunctions() {
  static std::atomic<void*> create, detach, key_create, set_specific;
  const char* home = "libpthread.so";
  ThreadFunctions functions{};
  functions.create =
      reinterpret_cast<decltype(functions.create)>(Cached(&create, home, "pthread_create"));
  functions.detach =
      reinterpret_cast<decltype(functions.detach)>(Cached(&detach, home, "pthread_detach"));
  functions.key_create = reinterpret_cast<decltype(functions.key_create)>(
      Cached(&key_create, home, "pthread_key_create"));
  functions.set_specific = reinterpret_cast<decltype(functions.set_specific)>(
      Cached(&set_specific, home, "pthread_setspecific"));
  return functions;
}

}  // namespace krux::limiter
