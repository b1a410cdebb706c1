// Linear memory: sizes, granularity, slabs, ranges, refusals.
#include <string>
#include <vector>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

constexpr size_t kMiB = 1048576;

// What 64 allocations of `bytes` take in all, after 63 of them are freed, and after the last.
void Growth(Answer& out, size_t bytes) {
  const size_t before = FreeBytes();
  std::vector<CUdeviceptr> pointers(64);
  for (CUdeviceptr& pointer : pointers) {
    if (const CUresult r = CU(cuMemAlloc, &pointer, bytes); r != CUDA_SUCCESS) out("alloc", r);
  }
  out("64-take-mib", Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
  for (size_t i = 0; i < 63; ++i) CU(cuMemFree, pointers[i]);
  out("1-takes-mib", Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
  CU(cuMemFree, pointers[63]);
  out("left-mib", Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
}

void Refused(Answer& out, size_t bytes) {
  CUdeviceptr pointer = 77;
  out("result", CU(cuMemAlloc, &pointer, bytes));
  out("pointer", pointer == 77 ? "kept" : pointer == 0 ? "zero" : "set");
}

void Range(Answer& out, size_t bytes, size_t offset) {
  CUdeviceptr pointer = 0;
  CU(cuMemAlloc, &pointer, bytes);
  CUdeviceptr base = 0;
  size_t size = 0;
  out("result", CU(cuMemGetAddressRange, &base, &size, pointer + offset));
  out("base", base == pointer);
  out("size", size);
  CU(cuMemFree, pointer);
}

void Alignment(Answer& out, size_t bytes) {
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  CU(cuMemAlloc, &first, bytes);
  CU(cuMemAlloc, &second, bytes);
  out("of-512", first % 512 == 0 && second % 512 == 0);
  out("distance", second > first ? second - first : first - second);
  CU(cuMemFree, first);
  CU(cuMemFree, second);
}

void Pitch(Answer& out, size_t width, size_t height, unsigned element) {
  CUdeviceptr pointer = 0;
  size_t pitch = 77;
  out("result", CU(cuMemAllocPitch, &pointer, &pitch, width, height, element));
  out("pitch", pitch);
  if (pointer != 0) CU(cuMemFree, pointer);
}

const Case kCases[] = {
    {"mem.info.total", kContext,
     [](Answer& out) {
       size_t free = 0;
       size_t total = 0;
       size_t whole = 0;
       out("result", CU(cuMemGetInfo, &free, &total));
       CU(cuDeviceTotalMem, &whole, 0);
       out("is-device-total", total == whole);
       out("total", total);
       out("free-below", free < total);
     }},
    {"mem.info.null", kContext,
     [](Answer& out) {
       size_t value = 0;
       out("free", CU(cuMemGetInfo, nullptr, &value));
       out("total", CU(cuMemGetInfo, &value, nullptr));
       out("both", CU(cuMemGetInfo, nullptr, nullptr));
     }},
    {"mem.alloc.zero", kContext, [](Answer& out) { Refused(out, 0); }},
    {"mem.alloc.null", kContext, [](Answer& out) { out(CU(cuMemAlloc, nullptr, 4096)); }},
    {"mem.alloc.null-and-zero", kContext, [](Answer& out) { out(CU(cuMemAlloc, nullptr, 0)); }},
    {"mem.alloc.too-much", kContext, [](Answer& out) { Refused(out, size_t{1} << 40); }},
    {"mem.alloc.way-too-much", kContext, [](Answer& out) { Refused(out, size_t{1} << 60); }},
    {"mem.alloc.all-ones", kContext, [](Answer& out) { Refused(out, ~size_t{0}); }},
    {"mem.alloc.free-plus-one", kContext,
     [](Answer& out) {
       Refused(out, FreeBytes() + 1);
       out("sync", CU(cuCtxSynchronize));
     }},
    {"mem.alloc.after-refusal", kContext,
     [](Answer& out) {
       Refused(out, size_t{1} << 45);
       CUdeviceptr pointer = 0;
       out("next", CU(cuMemAlloc, &pointer, 4096));
       out("free", CU(cuMemFree, pointer));
     }},
    {"mem.free.zero", kContext, [](Answer& out) { out(CU(cuMemFree, 0)); }},
    {"mem.free.junk", kContext, [](Answer& out) { out(CU(cuMemFree, 0x1234)); }},
    {"mem.free.twice", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       out("first", CU(cuMemFree, pointer));
       out("second", CU(cuMemFree, pointer));
     }},
    {"mem.free.middle", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4 * kMiB);
       out("middle", CU(cuMemFree, pointer + 512));
       out("base", CU(cuMemFree, pointer));
     }},
    {"mem.growth.1", kContext, [](Answer& out) { Growth(out, 1); }},
    {"mem.growth.512", kContext, [](Answer& out) { Growth(out, 512); }},
    {"mem.growth.4k", kContext, [](Answer& out) { Growth(out, 4096); }},
    {"mem.growth.32k", kContext, [](Answer& out) { Growth(out, 32768); }},
    {"mem.growth.40k", kContext, [](Answer& out) { Growth(out, 40960); }},
    {"mem.growth.64k", kContext, [](Answer& out) { Growth(out, 65536); }},
    {"mem.growth.96k", kContext, [](Answer& out) { Growth(out, 98304); }},
    {"mem.growth.128k", kContext, [](Answer& out) { Growth(out, 131072); }},
    {"mem.growth.256k", kContext, [](Answer& out) { Growth(out, 262144); }},
    {"mem.growth.300k", kContext, [](Answer& out) { Growth(out, 307200); }},
    {"mem.growth.512k", kContext, [](Answer& out) { Growth(out, 524288); }},
    {"mem.growth.768k", kContext, [](Answer& out) { Growth(out, 786432); }},
    {"mem.growth.1m", kContext, [](Answer& out) { Growth(out, kMiB); }},
    {"mem.growth.1m+1", kContext, [](Answer& out) { Growth(out, kMiB + 1); }},
    {"mem.growth.1.5m", kContext, [](Answer& out) { Growth(out, kMiB * 3 / 2); }},
    {"mem.growth.2m", kContext, [](Answer& out) { Growth(out, 2 * kMiB); }},
    {"mem.growth.2m+1", kContext, [](Answer& out) { Growth(out, 2 * kMiB + 1); }},
    {"mem.growth.3m", kContext, [](Answer& out) { Growth(out, 3 * kMiB); }},
    {"mem.growth.16m+1", kContext, [](Answer& out) { Growth(out, 16 * kMiB + 1); }},
    {"mem.growth.32m", kContext, [](Answer& out) { Growth(out, 32 * kMiB); }},
    {"mem.growth.700k", kContext, [](Answer& out) { Growth(out, 716800); }},
    {"mem.growth.every-second-freed", kContext,
     [](Answer& out) {
       const auto before = static_cast<long long>(FreeBytes());
       std::vector<CUdeviceptr> pointers(64);
       for (CUdeviceptr& pointer : pointers) CU(cuMemAlloc, &pointer, kMiB);
       for (size_t i = 0; i < 64; i += 2) CU(cuMemFree, pointers[i]);
       out("held-mib", Mib(before - static_cast<long long>(FreeBytes())));
       for (size_t i = 1; i < 64; i += 2) CU(cuMemFree, pointers[i]);
       out("left-mib", Mib(before - static_cast<long long>(FreeBytes())));
     }},
    {"mem.growth.mixed-small", kContext,
     [](Answer& out) {
       const auto before = static_cast<long long>(FreeBytes());
       std::vector<CUdeviceptr> pointers;
       for (const size_t bytes : {size_t{1}, size_t{700}, size_t{5000}, size_t{70000},
                                  size_t{300000}, size_t{600000}, kMiB}) {
         CUdeviceptr pointer = 0;
         CU(cuMemAlloc, &pointer, bytes);
         pointers.push_back(pointer);
         out(std::to_string(bytes), Mib(before - static_cast<long long>(FreeBytes())));
       }
       for (const CUdeviceptr pointer : pointers) CU(cuMemFree, pointer);
       out("left-mib", Mib(before - static_cast<long long>(FreeBytes())));
     },
     kAlone},
    {"mem.range.base", kContext, [](Answer& out) { Range(out, 1000, 0); }},
    {"mem.range.inside", kContext, [](Answer& out) { Range(out, 5 * kMiB + 3, 777); }},
    {"mem.range.last", kContext, [](Answer& out) { Range(out, 1000, 999); }},
    {"mem.range.nulls", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 1000);
       out(CU(cuMemGetAddressRange, nullptr, nullptr, pointer));
       CU(cuMemFree, pointer);
     }},
    {"mem.range.unknown", kContext,
     [](Answer& out) {
       CUdeviceptr base = 0;
       size_t size = 0;
       out("zero", CU(cuMemGetAddressRange, &base, &size, 0));
       out("junk", CU(cuMemGetAddressRange, &base, &size, 0x1234));
     }},
    {"mem.range.past-end", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4 * kMiB + 5);
       CUdeviceptr base = 0;
       size_t size = 0;
       out("result", CU(cuMemGetAddressRange, &base, &size, pointer + 4 * kMiB + 5));
       CU(cuMemFree, pointer);
     }},
    {"mem.alignment.1", kContext, [](Answer& out) { Alignment(out, 1); }, kAlone},
    {"mem.alignment.513", kContext, [](Answer& out) { Alignment(out, 513); }, kAlone},
    {"mem.alignment.2m", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 2 * kMiB);
       out("of-2m", pointer % (2 * kMiB) == 0);
       CU(cuMemFree, pointer);
     }},
    {"mem.pitch.1", kContext, [](Answer& out) { Pitch(out, 1, 1, 4); }},
    {"mem.pitch.512", kContext, [](Answer& out) { Pitch(out, 512, 10, 4); }},
    {"mem.pitch.513", kContext, [](Answer& out) { Pitch(out, 513, 10, 16); }},
    {"mem.pitch.element-1", kContext, [](Answer& out) { Pitch(out, 100, 10, 1); }},
    {"mem.pitch.element-3", kContext, [](Answer& out) { Pitch(out, 100, 10, 3); }},
    {"mem.pitch.zero-width", kContext, [](Answer& out) { Pitch(out, 0, 10, 4); }},
    {"mem.pitch.zero-height", kContext, [](Answer& out) { Pitch(out, 10, 0, 4); }},
    {"mem.pitch.nulls", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       size_t pitch = 0;
       out("pointer", CU(cuMemAllocPitch, nullptr, &pitch, 10, 10, 4U));
       out("pitch", CU(cuMemAllocPitch, &pointer, nullptr, 10, 10, 4U));
     }},
    {"mem.pitch.too-much", kContext, [](Answer& out) { Pitch(out, 1 << 20, size_t{1} << 30, 4); }},
    {"mem.fill-the-card", kContext,
     [](Answer& out) {
       std::vector<CUdeviceptr> pointers;
       for (size_t bytes = size_t{1} << 34; bytes >= 2 * kMiB; bytes /= 2) {
         CUdeviceptr pointer = 0;
         while (CU(cuMemAlloc, &pointer, bytes) == CUDA_SUCCESS) pointers.push_back(pointer);
       }
       out("left-mib", FreeBytes() / kMiB);
       CUdeviceptr pointer = 0;
       out("one-more", CU(cuMemAlloc, &pointer, 2 * kMiB));
       CUstream stream = nullptr;
       out("stream", CU(cuStreamCreate, &stream, 0U));
       for (const CUdeviceptr one : pointers) CU(cuMemFree, one);
     },
     kAlone},
};

}  // namespace

std::span<const Case> MemoryCases() { return kCases; }

}  // namespace krux::sim::conformance
