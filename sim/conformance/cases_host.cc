// Host memory that the driver knows: allocated, registered, mapped.
#include <sys/mman.h>

#include <cstdlib>
#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

void HostAlloc(Answer& out, size_t bytes, unsigned flags) {
  void* pointer = nullptr;
  out("result", CU(cuMemHostAlloc, &pointer, bytes, flags));
  if (pointer == nullptr) return;
  unsigned seen = 77;
  CUdeviceptr device = 0;
  out("flags", CU(cuMemHostGetFlags, &seen, pointer));
  out("value", seen);
  out("device", CU(cuMemHostGetDevicePointer, &device, pointer, 0U));
  out("same", device == reinterpret_cast<CUdeviceptr>(pointer));
  CU(cuMemFreeHost, pointer);
}

void* Pages(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void Register(Answer& out, size_t offset, size_t bytes, unsigned flags) {
  char* pages = static_cast<char*>(Pages(65536));
  out("register", CU(cuMemHostRegister, pages + offset, bytes, flags));
  unsigned seen = 77;
  out("flags", CU(cuMemHostGetFlags, &seen, pages + offset));
  out("value", seen);
  CUdeviceptr device = 0;
  out("device", CU(cuMemHostGetDevicePointer, &device, pages + offset, 0U));
  out("same", device == reinterpret_cast<CUdeviceptr>(pages + offset));
  out("unregister", CU(cuMemHostUnregister, pages + offset));
  munmap(pages, 65536);
}

const Case kCases[] = {
    {"host.alloc.plain", kContext,
     [](Answer& out) {
       void* pointer = nullptr;
       out("result", CU(cuMemAllocHost, &pointer, 100));
       out("aligned-512", reinterpret_cast<size_t>(pointer) % 512 == 0);
       unsigned flags = 77;
       out("flags", CU(cuMemHostGetFlags, &flags, pointer));
       out("value", flags);
       out("free", CU(cuMemFreeHost, pointer));
     }},
    {"host.alloc.portable", kContext,
     [](Answer& out) { HostAlloc(out, 4096, CU_MEMHOSTALLOC_PORTABLE); }},
    {"host.alloc.mapped", kContext,
     [](Answer& out) { HostAlloc(out, 4096, CU_MEMHOSTALLOC_DEVICEMAP); }},
    {"host.alloc.write-combined", kContext,
     [](Answer& out) { HostAlloc(out, 4096, CU_MEMHOSTALLOC_WRITECOMBINED); }},
    {"host.alloc.all-flags", kContext, [](Answer& out) { HostAlloc(out, 4096, 7); }},
    {"host.alloc.bad-flags", kContext, [](Answer& out) { HostAlloc(out, 4096, 0x100); }},
    {"host.alloc.zero", kContext, [](Answer& out) { HostAlloc(out, 0, 0); }},
    {"host.alloc.null", kContext,
     [](Answer& out) {
       out("host-alloc", CU(cuMemHostAlloc, nullptr, 4096, 0U));
       out("alloc-host", CU(cuMemAllocHost, nullptr, 4096));
     }},
    {"host.alloc.too-much", kContext, [](Answer& out) { HostAlloc(out, size_t{1} << 50, 0); }},
    {"host.alloc.takes-no-device-memory", kContext,
     [](Answer& out) {
       const size_t before = FreeBytes();
       void* pointer = nullptr;
       CU(cuMemAllocHost, &pointer, 64 << 20);
       out("mib", Mib(static_cast<long long>(before) - static_cast<long long>(FreeBytes())));
       CU(cuMemFreeHost, pointer);
     }},
    {"host.free.null", kContext, [](Answer& out) { out(CU(cuMemFreeHost, nullptr)); }},
    {"host.free.junk", kContext,
     [](Answer& out) {
       int local = 0;
       out(CU(cuMemFreeHost, &local));
     }},
    {"host.free.twice", kContext,
     [](Answer& out) {
       void* pointer = nullptr;
       CU(cuMemAllocHost, &pointer, 4096);
       out("first", CU(cuMemFreeHost, pointer));
       out("second", CU(cuMemFreeHost, pointer));
     }},
    {"host.free.middle", kContext,
     [](Answer& out) {
       void* pointer = nullptr;
       CU(cuMemAllocHost, &pointer, 8192);
       out("middle", CU(cuMemFreeHost, static_cast<char*>(pointer) + 512));
       out("base", CU(cuMemFreeHost, pointer));
     }},
    {"host.free.as-device", kContext,
     [](Answer& out) {
       void* pointer = nullptr;
       CU(cuMemAllocHost, &pointer, 4096);
       out("device-free", CU(cuMemFree, reinterpret_cast<CUdeviceptr>(pointer)));
       out("host-free", CU(cuMemFreeHost, pointer));
     }},
    {"host.device-pointer.flags", kContext,
     [](Answer& out) {
       void* pointer = nullptr;
       CU(cuMemAllocHost, &pointer, 4096);
       CUdeviceptr device = 0;
       out("flags", CU(cuMemHostGetDevicePointer, &device, pointer, 1U));
       out("null", CU(cuMemHostGetDevicePointer, nullptr, pointer, 0U));
       out("null-host", CU(cuMemHostGetDevicePointer, &device, nullptr, 0U));
       out("inside", CU(cuMemHostGetDevicePointer, &device, static_cast<char*>(pointer) + 8, 0U));
       out("offset", device - reinterpret_cast<CUdeviceptr>(pointer));
       CU(cuMemFreeHost, pointer);
     }},
    {"host.flags.unknown", kContext,
     [](Answer& out) {
       int local = 0;
       unsigned flags = 77;
       out("stack", CU(cuMemHostGetFlags, &flags, &local));
       out("null", CU(cuMemHostGetFlags, &flags, nullptr));
       out("null-out", CU(cuMemHostGetFlags, nullptr, &local));
     }},
    {"host.register.pages", kContext, [](Answer& out) { Register(out, 0, 65536, 0); }},
    {"host.register.unaligned", kContext, [](Answer& out) { Register(out, 100, 5000, 0); }},
    {"host.register.mapped", kContext,
     [](Answer& out) { Register(out, 0, 4096, CU_MEMHOSTREGISTER_DEVICEMAP); }},
    {"host.register.portable", kContext,
     [](Answer& out) { Register(out, 0, 4096, CU_MEMHOSTREGISTER_PORTABLE); }},
    {"host.register.read-only", kContext,
     [](Answer& out) { Register(out, 0, 4096, CU_MEMHOSTREGISTER_READ_ONLY); }},
    {"host.register.io", kContext,
     [](Answer& out) { Register(out, 0, 4096, CU_MEMHOSTREGISTER_IOMEMORY); }},
    {"host.register.bad-flags", kContext, [](Answer& out) { Register(out, 0, 4096, 0x100); }},
    {"host.register.zero", kContext, [](Answer& out) { Register(out, 0, 0, 0); }},
    {"host.register.null", kContext,
     [](Answer& out) { out(CU(cuMemHostRegister, nullptr, 4096, 0U)); }},
    {"host.register.twice", kContext,
     [](Answer& out) {
       void* pages = Pages(8192);
       out("first", CU(cuMemHostRegister, pages, 8192, 0U));
       out("second", CU(cuMemHostRegister, pages, 8192, 0U));
       out("overlap", CU(cuMemHostRegister, static_cast<char*>(pages) + 4096, 4096, 0U));
       out("unregister", CU(cuMemHostUnregister, pages));
       out("again", CU(cuMemHostUnregister, pages));
       munmap(pages, 8192);
     }},
    {"host.register.device-memory", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       out(CU(cuMemHostRegister, reinterpret_cast<void*>(pointer), 4096, 0U));
       CU(cuMemFree, pointer);
     }},
    {"host.register.allocated", kContext,
     [](Answer& out) {
       void* pointer = nullptr;
       CU(cuMemAllocHost, &pointer, 4096);
       out("register", CU(cuMemHostRegister, pointer, 4096, 0U));
       out("unregister", CU(cuMemHostUnregister, pointer));
       CU(cuMemFreeHost, pointer);
     }},
    {"host.register.unmapped", kContext,
     [](Answer& out) {
       void* pages = Pages(4096);
       munmap(pages, 4096);
       out(CU(cuMemHostRegister, pages, 4096, 0U));
     }},
    {"host.unregister.unknown", kContext,
     [](Answer& out) {
       int local = 0;
       out("stack", CU(cuMemHostUnregister, &local));
       out("null", CU(cuMemHostUnregister, nullptr));
     }},
};

}  // namespace

std::span<const Case> HostCases() { return kCases; }

}  // namespace krux::sim::conformance
