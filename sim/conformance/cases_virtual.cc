// Virtual memory management: reserve, create, map, access, release.
#include <unistd.h>

#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

constexpr size_t kMiB = 1048576;
constexpr size_t kChunk = 2 * kMiB;

CUmemAllocationProp Properties() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}
CUmemAccessDesc ReadWrite() {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}
CUmemGenericAllocationHandle Create(size_t bytes) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = Properties();
  CU(cuMemCreate, &handle, bytes, &properties, 0U);
  return handle;
}
CUdeviceptr Reserve(size_t bytes) {
  CUdeviceptr pointer = 0;
  CU(cuMemAddressReserve, &pointer, bytes, 0, 0, 0U);
  return pointer;
}
void CreateOf(Answer& out, size_t bytes) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = Properties();
  const auto before = static_cast<long long>(FreeBytes());
  const CUresult result = CU(cuMemCreate, &handle, bytes, &properties, 0U);
  out("create", result);
  out("taken-mib", Mib(before - static_cast<long long>(FreeBytes())));
  if (result != CUDA_SUCCESS) return;
  out("release", CU(cuMemRelease, handle));
  out("left-mib", Mib(before - static_cast<long long>(FreeBytes())));
}

const Case kCases[] = {
    {"virtual.granularity", kContext,
     [](Answer& out) {
       const CUmemAllocationProp properties = Properties();
       size_t value = 0;
       out("minimum", CU(cuMemGetAllocationGranularity, &value, &properties,
                         CU_MEM_ALLOC_GRANULARITY_MINIMUM));
       out("value", value);
       out("recommended", CU(cuMemGetAllocationGranularity, &value, &properties,
                             CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
       out("value", value);
       out("null", CU(cuMemGetAllocationGranularity, nullptr, &properties,
                      CU_MEM_ALLOC_GRANULARITY_MINIMUM));
       out("bad-option", CU(cuMemGetAllocationGranularity, &value, &properties,
                            Odd<CUmemAllocationGranularity_flags>(7)));
     }},
    {"virtual.granularity.bad-properties", kContext,
     [](Answer& out) {
       CUmemAllocationProp properties{};
       size_t value = 0;
       out("zeros", CU(cuMemGetAllocationGranularity, &value, &properties,
                       CU_MEM_ALLOC_GRANULARITY_MINIMUM));
       properties = Properties();
       properties.location.id = 1000;
       out("device", CU(cuMemGetAllocationGranularity, &value, &properties,
                        CU_MEM_ALLOC_GRANULARITY_MINIMUM));
       out("null",
           CU(cuMemGetAllocationGranularity, &value, nullptr, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
     }},
    {"virtual.reserve.zero", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 77;
       out("zero", CU(cuMemAddressReserve, &pointer, 0, 0, 0, 0U));
       out("odd", CU(cuMemAddressReserve, &pointer, kChunk + 5, 0, 0, 0U));
       out("64k", CU(cuMemAddressReserve, &pointer, 65536, 0, 0, 0U));
       out("4k", CU(cuMemAddressReserve, &pointer, 4096, 0, 0, 0U));
       out("null", CU(cuMemAddressReserve, nullptr, kChunk, 0, 0, 0U));
       out("flags", CU(cuMemAddressReserve, &pointer, kChunk, 0, 0, 8U));
       out("huge", CU(cuMemAddressReserve, &pointer, size_t{1} << 60, 0, 0, 0U));
     }},
    {"virtual.reserve.alignment", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       out("1g", CU(cuMemAddressReserve, &pointer, kChunk, 1 << 30, 0, 0U));
       out("aligned", pointer % (1 << 30) == 0);
       CU(cuMemAddressFree, pointer, kChunk);
       out("3", CU(cuMemAddressReserve, &pointer, kChunk, 3, 0, 0U));
       out("default", CU(cuMemAddressReserve, &pointer, kChunk, 0, 0, 0U));
       out("of-2m", pointer % kChunk == 0);
       CU(cuMemAddressFree, pointer, kChunk);
     }},
    {"virtual.reserve.takes-nothing", kContext,
     [](Answer& out) {
       const auto before = static_cast<long long>(FreeBytes());
       const CUdeviceptr pointer = Reserve(size_t{64} << 30);
       out("mib", Mib(before - static_cast<long long>(FreeBytes())));
       out("free", CU(cuMemAddressFree, pointer, size_t{64} << 30));
     }},
    {"virtual.reserve.free-bad", kContext,
     [](Answer& out) {
       const CUdeviceptr pointer = Reserve(2 * kChunk);
       out("half", CU(cuMemAddressFree, pointer, kChunk));
       out("middle", CU(cuMemAddressFree, pointer + kChunk, kChunk));
       out("junk", CU(cuMemAddressFree, 0x1234, kChunk));
       out("whole", CU(cuMemAddressFree, pointer, 2 * kChunk));
       out("twice", CU(cuMemAddressFree, pointer, 2 * kChunk));
     }},
    {"virtual.create.2m", kContext, [](Answer& out) { CreateOf(out, kChunk); }},
    {"virtual.create.64m", kContext, [](Answer& out) { CreateOf(out, 64 * kMiB); }},
    {"virtual.create.3m", kContext, [](Answer& out) { CreateOf(out, 3 * kMiB); }},
    {"virtual.create.zero", kContext, [](Answer& out) { CreateOf(out, 0); }},
    {"virtual.create.1t", kContext, [](Answer& out) { CreateOf(out, size_t{1} << 40); }},
    {"virtual.create.bad", kContext,
     [](Answer& out) {
       CUmemGenericAllocationHandle handle = 0;
       CUmemAllocationProp properties = Properties();
       out("null", CU(cuMemCreate, nullptr, kChunk, &properties, 0U));
       out("null-props", CU(cuMemCreate, &handle, kChunk, nullptr, 0U));
       out("flags", CU(cuMemCreate, &handle, kChunk, &properties, 1U));
       properties.location.id = 1000;
       out("device", CU(cuMemCreate, &handle, kChunk, &properties, 0U));
       properties = Properties();
       properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
       out("type", CU(cuMemCreate, &handle, kChunk, &properties, 0U));
     }},
    {"virtual.map.use", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       const CUdeviceptr pointer = Reserve(kChunk);
       const CUmemAccessDesc access = ReadWrite();
       out("map", CU(cuMemMap, pointer, kChunk, 0, handle, 0U));
       out("release", CU(cuMemRelease, handle));
       out("access", CU(cuMemSetAccess, pointer, kChunk, &access, 1));
       out("set", CU(cuMemsetD8, pointer, static_cast<unsigned char>(9), kChunk));
       unsigned char byte = 0;
       CU(cuMemcpyDtoH, &byte, pointer + kChunk - 1, 1);
       out("byte", static_cast<int>(byte));
       out("unmap", CU(cuMemUnmap, pointer, kChunk));
       out("free", CU(cuMemAddressFree, pointer, kChunk));
     }},
    {"virtual.map.no-access", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       const CUdeviceptr pointer = Reserve(kChunk);
       CU(cuMemMap, pointer, kChunk, 0, handle, 0U);
       unsigned long long flags = 77;
       CUmemLocation location{};
       location.type = CU_MEM_LOCATION_TYPE_DEVICE;
       out("access", CU(cuMemGetAccess, &flags, &location, pointer));
       out("flags", flags);
       out("set", CU(cuMemsetD8, pointer, static_cast<unsigned char>(9), kChunk));
       out("sync", CU(cuCtxSynchronize));
     },
     kOwnProcess},
    {"virtual.map.bad", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       const CUdeviceptr pointer = Reserve(2 * kChunk);
       out("too-long", CU(cuMemMap, pointer, 2 * kChunk, 0, handle, 0U));
       out("offset", CU(cuMemMap, pointer, kChunk, kChunk, handle, 0U));
       out("odd-size", CU(cuMemMap, pointer, 4096, 0, handle, 0U));
       out("odd-address", CU(cuMemMap, pointer + 4096, kChunk, 0, handle, 0U));
       out("unreserved", CU(cuMemMap, 0x10000000, kChunk, 0, handle, 0U));
       out("zero-handle", CU(cuMemMap, pointer, kChunk, 0, 0U, 0U));
       out("flags", CU(cuMemMap, pointer, kChunk, 0, handle, 1U));
       CU(cuMemRelease, handle);
       CU(cuMemAddressFree, pointer, 2 * kChunk);
     }},
    {"virtual.map.twice", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       const CUdeviceptr pointer = Reserve(kChunk);
       out("first", CU(cuMemMap, pointer, kChunk, 0, handle, 0U));
       out("second", CU(cuMemMap, pointer, kChunk, 0, handle, 0U));
       out("free-mapped", CU(cuMemAddressFree, pointer, kChunk));
       out("unmap", CU(cuMemUnmap, pointer, kChunk));
       out("unmap-again", CU(cuMemUnmap, pointer, kChunk));
       CU(cuMemRelease, handle);
       CU(cuMemAddressFree, pointer, kChunk);
     }},
    {"virtual.map.two-views", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       const CUdeviceptr pointer = Reserve(2 * kChunk);
       const CUmemAccessDesc access = ReadWrite();
       out("first", CU(cuMemMap, pointer, kChunk, 0, handle, 0U));
       out("second", CU(cuMemMap, pointer + kChunk, kChunk, 0, handle, 0U));
       out("access", CU(cuMemSetAccess, pointer, 2 * kChunk, &access, 1));
       CU(cuMemsetD8, pointer, static_cast<unsigned char>(42), 16);
       unsigned char byte = 0;
       CU(cuMemcpyDtoH, &byte, pointer + kChunk + 15, 1);
       out("byte", static_cast<int>(byte));
       out("unmap-both", CU(cuMemUnmap, pointer, 2 * kChunk));
       CU(cuMemRelease, handle);
       CU(cuMemAddressFree, pointer, 2 * kChunk);
     }},
    {"virtual.map.part", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(2 * kChunk);
       const CUdeviceptr pointer = Reserve(2 * kChunk);
       out("half", CU(cuMemMap, pointer, kChunk, 0, handle, 0U));
       out("whole", CU(cuMemMap, pointer, 2 * kChunk, 0, handle, 0U));
       CU(cuMemUnmap, pointer, kChunk);
       CU(cuMemMap, pointer, 2 * kChunk, 0, handle, 0U);
       out("unmap-half", CU(cuMemUnmap, pointer, kChunk));
       out("unmap", CU(cuMemUnmap, pointer, 2 * kChunk));
       CU(cuMemRelease, handle);
       CU(cuMemAddressFree, pointer, 2 * kChunk);
     }},
    {"virtual.held-by-map", kContext,
     [](Answer& out) {
       const auto before = static_cast<long long>(FreeBytes());
       const CUmemGenericAllocationHandle handle = Create(64 * kMiB);
       const CUdeviceptr pointer = Reserve(64 * kMiB);
       CU(cuMemMap, pointer, 64 * kMiB, 0, handle, 0U);
       CU(cuMemRelease, handle);
       out("released-mib", Mib(before - static_cast<long long>(FreeBytes())));
       CU(cuMemUnmap, pointer, 64 * kMiB);
       out("unmapped-mib", Mib(before - static_cast<long long>(FreeBytes())));
       CU(cuMemAddressFree, pointer, 64 * kMiB);
     }},
    {"virtual.release.twice", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       out("first", CU(cuMemRelease, handle));
       out("second", CU(cuMemRelease, handle));
       out("zero", CU(cuMemRelease, 0U));
     }},
    {"virtual.retain", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       const CUdeviceptr pointer = Reserve(kChunk);
       CU(cuMemMap, pointer, kChunk, 0, handle, 0U);
       CUmemGenericAllocationHandle again = 0;
       out("retain", CU(cuMemRetainAllocationHandle, &again, reinterpret_cast<void*>(pointer)));
       out("same", again == handle);
       out("release-1", CU(cuMemRelease, again));
       out("release-2", CU(cuMemRelease, handle));
       out("junk", CU(cuMemRetainAllocationHandle, &again, reinterpret_cast<void*>(0x1234)));
       CU(cuMemUnmap, pointer, kChunk);
       CU(cuMemAddressFree, pointer, kChunk);
     }},
    {"virtual.retain.linear", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, kChunk);
       CUmemGenericAllocationHandle handle = 0;
       out(CU(cuMemRetainAllocationHandle, &handle, reinterpret_cast<void*>(pointer)));
       CU(cuMemFree, pointer);
     }},
    {"virtual.properties", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       CUmemAllocationProp seen{};
       out("result", CU(cuMemGetAllocationPropertiesFromHandle, &seen, handle));
       out("type", static_cast<int>(seen.type));
       out("location", static_cast<int>(seen.location.type));
       out("handles", static_cast<int>(seen.requestedHandleTypes));
       CU(cuMemRelease, handle);
     }},
    {"virtual.access.bad", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       const CUdeviceptr pointer = Reserve(2 * kChunk);
       CU(cuMemMap, pointer, kChunk, 0, handle, 0U);
       CUmemAccessDesc access = ReadWrite();
       out("unmapped-part", CU(cuMemSetAccess, pointer, 2 * kChunk, &access, 1));
       out("zero-count", CU(cuMemSetAccess, pointer, kChunk, &access, 0));
       out("null", CU(cuMemSetAccess, pointer, kChunk, nullptr, 1));
       access.location.id = 1000;
       out("device", CU(cuMemSetAccess, pointer, kChunk, &access, 1));
       access = ReadWrite();
       access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
       out("read-only", CU(cuMemSetAccess, pointer, kChunk, &access, 1));
       CU(cuMemUnmap, pointer, kChunk);
       CU(cuMemRelease, handle);
       CU(cuMemAddressFree, pointer, 2 * kChunk);
     }},
    {"virtual.free-as-linear", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       const CUdeviceptr pointer = Reserve(kChunk);
       CU(cuMemMap, pointer, kChunk, 0, handle, 0U);
       out("free", CU(cuMemFree, pointer));
       CUdeviceptr base = 0;
       size_t size = 0;
       out("range", CU(cuMemGetAddressRange, &base, &size, pointer));
       out("size", size);
       CU(cuMemUnmap, pointer, kChunk);
       CU(cuMemRelease, handle);
       CU(cuMemAddressFree, pointer, kChunk);
     }},
    {"virtual.export.not-requested", kContext,
     [](Answer& out) {
       const CUmemGenericAllocationHandle handle = Create(kChunk);
       int descriptor = -1;
       out(CU(cuMemExportToShareableHandle, &descriptor, handle,
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0U));
       CU(cuMemRelease, handle);
     }},
    {"virtual.export.roundtrip", kContext,
     [](Answer& out) {
       CUmemAllocationProp properties = Properties();
       properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
       CUmemGenericAllocationHandle handle = 0;
       out("create", CU(cuMemCreate, &handle, kChunk, &properties, 0U));
       int descriptor = -1;
       out("export", CU(cuMemExportToShareableHandle, &descriptor, handle,
                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0U));
       out("descriptor", descriptor >= 0);
       CUmemGenericAllocationHandle imported = 0;
       void* number = reinterpret_cast<void*>(static_cast<size_t>(descriptor));
       out("import", CU(cuMemImportFromShareableHandle, &imported, number,
                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
       out("same", imported == handle);
       const auto before = static_cast<long long>(FreeBytes());
       out("release", CU(cuMemRelease, handle));
       out("held-mib", Mib(before - static_cast<long long>(FreeBytes())));
       out("release-imported", CU(cuMemRelease, imported));
       out("freed-mib", Mib(before - static_cast<long long>(FreeBytes())));
       close(descriptor);
       out("closed-mib", Mib(before - static_cast<long long>(FreeBytes())));
     },
     kAlone},
    {"virtual.import.bad", kContext,
     [](Answer& out) {
       CUmemGenericAllocationHandle handle = 0;
       out("minus-1", CU(cuMemImportFromShareableHandle, &handle,
                         reinterpret_cast<void*>(static_cast<size_t>(-1)),
                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
       out("pipe", CU(cuMemImportFromShareableHandle, &handle, reinterpret_cast<void*>(size_t{2}),
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
     }},
};

}  // namespace

std::span<const Case> VirtualCases() { return kCases; }

}  // namespace krux::sim::conformance
