// Managed memory: allocation, attributes, advice, prefetch; what of it the figures show.
#include <cstring>
#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

CUdeviceptr Managed(size_t bytes) {
  CUdeviceptr pointer = 0;
  CU(cuMemAllocManaged, &pointer, bytes, unsigned{CU_MEM_ATTACH_GLOBAL});
  return pointer;
}

CUmemLocation OnDevice(int id = 0) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = id;
  return location;
}

void Advise(Answer& out, CUmem_advise advice, int device) {
  const CUdeviceptr pointer = Managed(65536);
  out("advise", CU(cuMemAdvise, pointer, 65536, advice, OnDevice(device)));
  CU(cuMemFree, pointer);
}

void RangeAttribute(Answer& out, CUmem_range_attribute attribute) {
  const CUdeviceptr pointer = Managed(65536);
  int value = 77;
  out("result", CU(cuMemRangeGetAttribute, &value, sizeof value, attribute, pointer, 65536));
  out("value", value);
  CU(cuMemFree, pointer);
}

const Case kCases[] = {
    {"managed.alloc.global", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAllocManaged, &pointer, 4096, unsigned{CU_MEM_ATTACH_GLOBAL}));
       std::memset(reinterpret_cast<void*>(pointer), 5, 4096);
       unsigned char byte = 0;
       out("copy", CU(cuMemcpyDtoH, &byte, pointer + 4095, 1));
       out("byte", static_cast<int>(byte));
       out("free", CU(cuMemFree, pointer));
     }},
    {"managed.alloc.host", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAllocManaged, &pointer, 4096, unsigned{CU_MEM_ATTACH_HOST}));
       out("free", CU(cuMemFree, pointer));
     }},
    {"managed.alloc.single", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAllocManaged, &pointer, 4096, unsigned{CU_MEM_ATTACH_SINGLE}));
     }},
    {"managed.alloc.no-flag", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       out("alloc", CU(cuMemAllocManaged, &pointer, 4096, 0U));
     }},
    {"managed.alloc.zero", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       out("zero", CU(cuMemAllocManaged, &pointer, 0, unsigned{CU_MEM_ATTACH_GLOBAL}));
       out("null", CU(cuMemAllocManaged, nullptr, 4096, unsigned{CU_MEM_ATTACH_GLOBAL}));
     }},
    {"managed.alloc.takes-nothing-yet", kContext,
     [](Answer& out) {
       CU(cuMemFree, Managed(4096));
       const size_t before = FreeBytes();
       const CUdeviceptr pointer = Managed(64 << 20);
       out("mib", Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
       CU(cuMemFree, pointer);
     }},
    {"managed.touched-on-device", kContext,
     [](Answer& out) {
       const size_t before = FreeBytes();
       const CUdeviceptr pointer = Managed(256 << 20);
       out("set", CU(cuMemsetD8, pointer, static_cast<unsigned char>(1), 256 << 20));
       CU(cuCtxSynchronize);
       out("mib", Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
       CU(cuMemFree, pointer);
       out("left", Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
     },
     kAlone},
    {"managed.prefetch", kContext,
     [](Answer& out) {
       const size_t before = FreeBytes();
       const CUdeviceptr pointer = Managed(64 << 20);
       out("prefetch", CU(cuMemPrefetchAsync, pointer, 64 << 20, OnDevice(), 0U, nullptr));
       CU(cuCtxSynchronize);
       out("mib", Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
       CUmemLocation host{};
       host.type = CU_MEM_LOCATION_TYPE_HOST;
       out("back", CU(cuMemPrefetchAsync, pointer, 64 << 20, host, 0U, nullptr));
       CU(cuCtxSynchronize);
       out("mib", Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
       CU(cuMemFree, pointer);
     },
     kAlone},
    {"managed.prefetch.bad", kContext,
     [](Answer& out) {
       const CUdeviceptr pointer = Managed(65536);
       out("device", CU(cuMemPrefetchAsync, pointer, 65536, OnDevice(1000), 0U, nullptr));
       out("zero", CU(cuMemPrefetchAsync, pointer, 0, OnDevice(), 0U, nullptr));
       out("past-end", CU(cuMemPrefetchAsync, pointer, size_t{1} << 30, OnDevice(), 0U, nullptr));
       out("flags", CU(cuMemPrefetchAsync, pointer, 65536, OnDevice(), 1U, nullptr));
       CU(cuMemFree, pointer);
     }},
    {"managed.prefetch.linear", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 65536);
       out(CU(cuMemPrefetchAsync, pointer, 65536, OnDevice(), 0U, nullptr));
       CU(cuMemFree, pointer);
     }},
    {"managed.advise.read-mostly", kContext,
     [](Answer& out) { Advise(out, CU_MEM_ADVISE_SET_READ_MOSTLY, 0); }},
    {"managed.advise.preferred", kContext,
     [](Answer& out) { Advise(out, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0); }},
    {"managed.advise.accessed-by", kContext,
     [](Answer& out) { Advise(out, CU_MEM_ADVISE_SET_ACCESSED_BY, 0); }},
    {"managed.advise.bad-device", kContext,
     [](Answer& out) { Advise(out, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 1000); }},
    {"managed.advise.bad-advice", kContext,
     [](Answer& out) { Advise(out, Odd<CUmem_advise>(77), 0); }},
    {"managed.advise.linear", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 65536);
       out(CU(cuMemAdvise, pointer, 65536, CU_MEM_ADVISE_SET_READ_MOSTLY, OnDevice()));
       CU(cuMemFree, pointer);
     }},
    {"managed.range.read-mostly", kContext,
     [](Answer& out) { RangeAttribute(out, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY); }},
    {"managed.range.preferred", kContext,
     [](Answer& out) { RangeAttribute(out, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION); }},
    {"managed.range.last-prefetch", kContext,
     [](Answer& out) { RangeAttribute(out, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION); }},
    {"managed.range.linear", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 65536);
       int value = 77;
       out(CU(cuMemRangeGetAttribute, &value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
              pointer, 65536));
       CU(cuMemFree, pointer);
     }},
    {"managed.attach", kContext,
     [](Answer& out) {
       const CUdeviceptr pointer = Managed(65536);
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, 0U);
       out("single",
           CU(cuStreamAttachMemAsync, stream, pointer, 0, unsigned{CU_MEM_ATTACH_SINGLE}));
       out("global",
           CU(cuStreamAttachMemAsync, stream, pointer, 0, unsigned{CU_MEM_ATTACH_GLOBAL}));
       out("sync", CU(cuStreamSynchronize, stream));
       out("bad-flag", CU(cuStreamAttachMemAsync, stream, pointer, 0, 77U));
       out("null-stream",
           CU(cuStreamAttachMemAsync, nullptr, pointer, 0, unsigned{CU_MEM_ATTACH_SINGLE}));
       CU(cuStreamDestroy, stream);
       CU(cuMemFree, pointer);
     }},
};

}  // namespace

std::span<const Case> ManagedCases() { return kCases; }

}  // namespace krux::sim::conformance
