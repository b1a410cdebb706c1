// The functions of the C library that the limiter replaces or takes from libraries that a program
// need not have: found once, in the objects themselves (elf_lookup.h).
// Thread-safe: the values are the same whoever finds them.
#ifndef KRUX_LIMITER_DRIVER_LOADER_H_
#define KRUX_LIMITER_DRIVER_LOADER_H_

#include <pthread.h>

namespace krux::limiter {

using DlsymFunction = void* (*)(void* handle, const char* name);
using DlvsymFunction = void* (*)(void* handle, const char* name, const char* version);
using DlopenFunction = void* (*)(const char* file, int flags);
using DlmopenFunction = void* (*)(long name_space, const char* file, int flags);
using DlinfoFunction = int (*)(void* handle, int request, void* answer);
using DlcloseFunction = int (*)(void* handle);

// nullptr only when the process has no dynamic loader functions at all.
DlsymFunction RealDlsym();
DlvsymFunction RealDlvsym();
DlopenFunction RealDlopen();
DlmopenFunction RealDlmopen();
DlinfoFunction RealDlinfo();
DlcloseFunction RealDlclose();

// In libpthread before glibc 2.34, so bound late; nullptr when the process has no threads library,
// which the driver always loads.
struct ThreadFunctions {
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  int (*detach)(pthread_t);
  int (*key_create)(pthread_key_t*, void (*)(void*));
  int (*set_specific)(pthread_key_t, const void*);
};
ThreadFunctions RealThreadFunctions();

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_DRIVER_LOADER_H_
