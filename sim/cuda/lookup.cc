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
extern const int kKruxSimDriverVersion;
}

namespace {

struct Found {
  void* address = nullptr;  // the newest form that the asked version had
  bool has_newer = false;   // the name exists, but only since a later version
  bool is_known() const { return address != nullptr || has_newer; }
};

Found FindName(const char* symbol, int version, bool per_thread) {
  Found found;
  int newest = 0;
  for (const KruxSimDriverName* row = kKruxSimDriverNames; row->base != nullptr; ++row) {
    if ((row->per_thread != 0) != per_thread || std::strcmp(row->base, symbol) != 0) continue;
    // The driver compares without a sign: -1 is newer than all.
    if (static_cast<unsigned>(row->version) > static_cast<unsigned>(version)) {
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

// A name that has forms for the per-thread stream, but none so old, is not found at all; one that
// has no stream has one form for both.
Found Look(const char* symbol, int version, cuuint64_t flags) {
  if ((flags & kPerThread) != 0) {
    const Found found = FindName(symbol, version, true);
    if (found.is_known()) return found;
  }
  return FindName(symbol, version, false);
}

// A program of a later release than the driver's is told so.
bool IsFuture(int version) { return version > kKruxSimDriverVersion; }

}  // namespace

// What is not there is no error of the call: the status says it.
CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** address, int version,
                                     cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || address == nullptr || (flags & ~kKnownFlags) != 0 || IsFuture(version)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Found found = Look(symbol, version, flags);
  if (found.address == nullptr) krux::sim::TraceMissing("no function", symbol);
  *address = found.address;
  if (status != nullptr) {
    *status = found.address != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : found.has_newer        ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

// The first generation has no status: it answers an error and leaves the address alone.
CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** address, int version,
                                  cuuint64_t flags) {
  void* found = nullptr;
  if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuGetProcAddress_v2(symbol, &found, version, flags, nullptr);
  if (result != CUDA_SUCCESS) return result;
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *address = found;
  return CUDA_SUCCESS;
}
