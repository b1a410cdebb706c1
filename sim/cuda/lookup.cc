// How programs find the driver's functions: cuGetProcAddress. The table of names is generated
// from names/names.txt (sim/names.cmake).
#include <cstring>

#include "sim/cuda/driver.h"
#include "sim/cuda/trace.h"

extern "C" {
struct KruxSimDriverName {
  const char* base;
  int version;
  int per_thread;
  void* address;
};
extern const KruxSimDriverName kKruxSimDriverNames[];
}

namespace {

struct Found {
  void* address = nullptr;  // the newest form that the asked version had
  bool has_newer = false;   // the name exists, but only since a later version
};

Found FindName(const char* symbol, int version, bool per_thread) {
  Found found;
  int newest = 0;
  for (const KruxSimDriverName* row = kKruxSimDriverNames; row->base != nullptr; ++row) {
    if ((row->per_thread != 0) != per_thread || std::strcmp(row->base, symbol) != 0) continue;
    if (row->version > version) {
      found.has_newer = true;
    } else if (row->version >= newest) {
      newest = row->version;
      found.address = row->address;
    }
  }
  return found;
}

constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
constexpr cuuint64_t kKnownFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | kPerThread;

}  // namespace

CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** address, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || address == nullptr || (flags & ~kKnownFlags) != 0 ||
      (flags & kKnownFlags) == kKnownFlags) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Seen with PyTorch 2.11: an empty name is answered with success and a null address.
  if (symbol[0] == '\0') {
    *address = nullptr;
    if (status != nullptr) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
  }
  Found found;
  if ((flags & kPerThread) != 0) found = FindName(symbol, version, true);
  // Names without a stream have one form for both.
  if (found.address == nullptr) {
    const Found plain = FindName(symbol, version, false);
    found.address = plain.address;
    found.has_newer |= plain.has_newer;
  }
  if (found.address == nullptr) krux::sim::TraceMissing("no function", symbol);
  *address = found.address;
  if (status != nullptr) {
    *status = found.address != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : found.has_newer        ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return found.address != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** address, int version,
                                  cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, address, version, flags, nullptr);
}
