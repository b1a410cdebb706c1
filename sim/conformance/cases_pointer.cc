// cuPointerGetAttribute(s) over every kind of pointer.
#include <array>
#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

// Every attribute whose answer does not depend on addresses.
void Attributes(Answer& out, CUdeviceptr pointer) {
  for (const int attribute : {2, 6, 8, 9, 10, 13, 14, 15, 16, 18, 21}) {
    unsigned long long value = 0;
    const CUresult result =
        CU(cuPointerGetAttribute, &value, static_cast<CUpointer_attribute>(attribute), pointer);
    out(std::to_string(attribute),
        result == CUDA_SUCCESS ? std::to_string(value) : Answer::ResultName(result));
  }
}

void Places(Answer& out, CUdeviceptr pointer, CUdeviceptr base) {
  CUdeviceptr device = 0;
  void* host = nullptr;
  CUdeviceptr start = 0;
  CUcontext context = nullptr;
  unsigned long long size = 0;
  out("context", CU(cuPointerGetAttribute, &context, CU_POINTER_ATTRIBUTE_CONTEXT, pointer));
  out("is-primary", context == PrimaryContext());
  out("device", CU(cuPointerGetAttribute, &device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer));
  out("same", device == pointer);
  out("host", CU(cuPointerGetAttribute, &host, CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer));
  out("same", host == reinterpret_cast<void*>(pointer));
  out("start", CU(cuPointerGetAttribute, &start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer));
  out("is-base", start == base);
  out("size", CU(cuPointerGetAttribute, &size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer));
  out("bytes", size);
}

const Case kCases[] = {
    {"pointer.linear", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 1000);
       Attributes(out, pointer + 10);
       CU(cuMemFree, pointer);
     }},
    {"pointer.linear.places", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 1000);
       Places(out, pointer + 10, pointer);
       CU(cuMemFree, pointer);
     }},
    {"pointer.host", kContext,
     [](Answer& out) {
       void* pointer = nullptr;
       CU(cuMemAllocHost, &pointer, 1000);
       Attributes(out, reinterpret_cast<CUdeviceptr>(pointer));
       CU(cuMemFreeHost, pointer);
     }},
    {"pointer.host.places", kContext,
     [](Answer& out) {
       void* pointer = nullptr;
       CU(cuMemAllocHost, &pointer, 1000);
       Places(out, reinterpret_cast<CUdeviceptr>(pointer) + 10,
              reinterpret_cast<CUdeviceptr>(pointer));
       CU(cuMemFreeHost, pointer);
     }},
    {"pointer.managed", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAllocManaged, &pointer, 1000, unsigned{CU_MEM_ATTACH_GLOBAL});
       Attributes(out, pointer);
       CU(cuMemFree, pointer);
     }},
    {"pointer.managed.places", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAllocManaged, &pointer, 1000, unsigned{CU_MEM_ATTACH_GLOBAL});
       Places(out, pointer, pointer);
       CU(cuMemFree, pointer);
     }},
    {"pointer.pool", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAllocAsync, &pointer, 1000, nullptr);
       Attributes(out, pointer);
       Places(out, pointer + 10, pointer);
       CU(cuMemFreeAsync, pointer, nullptr);
     }},
    {"pointer.virtual", kContext,
     [](Answer& out) {
       CUmemAllocationProp properties{};
       properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
       properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
       CUmemGenericAllocationHandle handle = 0;
       CUdeviceptr pointer = 0;
       CU(cuMemCreate, &handle, 2 << 20, &properties, 0U);
       CU(cuMemAddressReserve, &pointer, 2 << 20, 0, 0, 0U);
       CU(cuMemMap, pointer, 2 << 20, 0, handle, 0U);
       Attributes(out, pointer);
       Places(out, pointer + 10, pointer);
       CU(cuMemUnmap, pointer, 2 << 20);
       CU(cuMemRelease, handle);
       Attributes(out, pointer);
       CU(cuMemAddressFree, pointer, 2 << 20);
     }},
    {"pointer.stack", kContext,
     [](Answer& out) {
       int local = 0;
       Attributes(out, reinterpret_cast<CUdeviceptr>(&local));
     }},
    {"pointer.zero", kContext, [](Answer& out) { Attributes(out, 0); }},
    {"pointer.junk", kContext, [](Answer& out) { Attributes(out, 0x1234); }},
    {"pointer.freed", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 8 << 20);
       CU(cuMemFree, pointer);
       Attributes(out, pointer);
     }},
    {"pointer.global", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       size_t bytes = 0;
       CU(cuModuleGetGlobal, &pointer, &bytes, TestModule(), "numbers");
       Attributes(out, pointer);
     }},
    {"pointer.one.bad", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 1000);
       unsigned long long value = 0;
       out("null", CU(cuPointerGetAttribute, nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
       out("zero", CU(cuPointerGetAttribute, &value, Odd<CUpointer_attribute>(0), pointer));
       out("large", CU(cuPointerGetAttribute, &value, Odd<CUpointer_attribute>(500), pointer));
       CU(cuMemFree, pointer);
     }},
    {"pointer.many", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 1000);
       unsigned type = 77;
       int ordinal = 77;
       std::array<CUpointer_attribute, 2> wanted = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
       std::array<void*, 2> values = {&type, &ordinal};
       out("known", CU(cuPointerGetAttributes, 2U, wanted.data(), values.data(), pointer));
       out("type", type);
       out("ordinal", ordinal);
       out("stack", CU(cuPointerGetAttributes, 2U, wanted.data(), values.data(),
                       reinterpret_cast<CUdeviceptr>(&type)));
       out("type", type);
       out("ordinal", ordinal);
       out("none", CU(cuPointerGetAttributes, 0U, wanted.data(), values.data(), pointer));
       out("null", CU(cuPointerGetAttributes, 2U, nullptr, values.data(), pointer));
       CU(cuMemFree, pointer);
     }},
    {"pointer.set-sync", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 1000);
       unsigned value = 1;
       out("set", CU(cuPointerSetAttribute, &value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
       unsigned seen = 0;
       out("get", CU(cuPointerGetAttribute, &seen, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer));
       out("value", seen);
       out("other", CU(cuPointerSetAttribute, &value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer));
       out("junk", CU(cuPointerSetAttribute, &value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0x1234));
       CU(cuMemFree, pointer);
     }},
    {"pointer.buffer-id.differs", kContext,
     [](Answer& out) {
       CUdeviceptr first = 0;
       CUdeviceptr second = 0;
       CU(cuMemAlloc, &first, 1000);
       CU(cuMemAlloc, &second, 1000);
       unsigned long long a = 0;
       unsigned long long b = 0;
       out("get", CU(cuPointerGetAttribute, &a, CU_POINTER_ATTRIBUTE_BUFFER_ID, first));
       CU(cuPointerGetAttribute, &b, CU_POINTER_ATTRIBUTE_BUFFER_ID, second);
       out("differs", a != b);
       CU(cuMemFree, first);
       CU(cuMemFree, second);
     }},
};

}  // namespace

std::span<const Case> PointerCases() { return kCases; }

}  // namespace krux::sim::conformance
