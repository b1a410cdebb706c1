// Finds symbols in loaded objects without dlsym, which the limiter itself replaces, and without
// libdl, which a small image may not have.
//
// Thread-safe, no state. Works for glibc 2.17 and later; objects that are unloaded at the same
// moment are the caller's risk (libc and the driver are not).
#ifndef KRUX_LIMITER_DRIVER_ELF_LOOKUP_H_
#define KRUX_LIMITER_DRIVER_ELF_LOOKUP_H_

namespace krux::limiter {

// The address of a defined function in the first loaded object whose file name begins with
// `object_prefix` ("libc.so"); nullptr when there is none. Of several versions the first counts.
void* FindInObject(const char* object_prefix, const char* symbol);

// The file name, without folder, of the loaded object that holds `address`; "" when none does,
// "" for the main program. Valid while that object is loaded.
const char* ObjectNameOf(const void* address);

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_DRIVER_ELF_LOOKUP_H_
