// Stream-ordered memory and pools: growth, attributes, release, order.
#include <string>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

constexpr size_t kMiB = 1048576;

CUmemPoolProps Properties() {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}
CUmemoryPool MakePool(Answer& out, const CUmemPoolProps& properties = Properties()) {
  CUmemoryPool pool = nullptr;
  out("create", CU(cuMemPoolCreate, &pool, &properties));
  return pool;
}
unsigned long long Attribute(CUmemoryPool pool, CUmemPool_attribute attribute) {
  cuuint64_t value = 0;
  CU(cuMemPoolGetAttribute, pool, attribute, &value);
  return value;
}
void Figures(Answer& out, CUmemoryPool pool) {
  out("reserved", Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  out("used", Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
}

// One allocation of a fresh pool, freed and synchronized, then trimmed.
void OneBlock(Answer& out, size_t bytes) {
  CUmemoryPool pool = MakePool(out);
  const auto before = static_cast<long long>(FreeBytes());
  CUdeviceptr pointer = 0;
  out("alloc", CU(cuMemAllocFromPoolAsync, &pointer, bytes, pool, nullptr));
  CU(cuStreamSynchronize, nullptr);
  Figures(out, pool);
  out("taken-mib", Mib(before - static_cast<long long>(FreeBytes())));
  out("free", CU(cuMemFreeAsync, pointer, nullptr));
  CU(cuStreamSynchronize, nullptr);
  Figures(out, pool);
  out("trim", CU(cuMemPoolTrimTo, pool, 0));
  out("taken-mib", Mib(before - static_cast<long long>(FreeBytes())));
  CU(cuMemPoolDestroy, pool);
}

const Case kCases[] = {
    {"pool.create.bad", kContext,
     [](Answer& out) {
       CUmemoryPool pool = nullptr;
       CUmemPoolProps properties = Properties();
       out("null", CU(cuMemPoolCreate, nullptr, &properties));
       out("null-props", CU(cuMemPoolCreate, &pool, nullptr));
       properties.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
       out("type", CU(cuMemPoolCreate, &pool, &properties));
       properties = Properties();
       properties.location.id = 1000;
       out("device", CU(cuMemPoolCreate, &pool, &properties));
       properties = Properties();
       properties.location.type = CU_MEM_LOCATION_TYPE_INVALID;
       out("location", CU(cuMemPoolCreate, &pool, &properties));
     }},
    {"pool.create.host", kContext,
     [](Answer& out) {
       CUmemPoolProps properties = Properties();
       properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
       CUmemoryPool pool = MakePool(out, properties);
       if (pool != nullptr) CU(cuMemPoolDestroy, pool);
     }},
    {"pool.create.shareable", kContext,
     [](Answer& out) {
       CUmemPoolProps properties = Properties();
       properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
       CUmemoryPool pool = MakePool(out, properties);
       if (pool != nullptr) CU(cuMemPoolDestroy, pool);
     }},
    {"pool.create.takes-nothing", kContext,
     [](Answer& out) {
       const auto before = static_cast<long long>(FreeBytes());
       CUmemoryPool pool = MakePool(out);
       out("mib", Mib(before - static_cast<long long>(FreeBytes())));
       Figures(out, pool);
       out("destroy", CU(cuMemPoolDestroy, pool));
     }},
    {"pool.destroy.null", kContext, [](Answer& out) { out(CU(cuMemPoolDestroy, nullptr)); }},
    {"pool.destroy.default", kContext,
     [](Answer& out) {
       CUmemoryPool pool = nullptr;
       CU(cuDeviceGetDefaultMemPool, &pool, 0);
       out(CU(cuMemPoolDestroy, pool));
     }},
    {"pool.destroy.with-block", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       CUdeviceptr pointer = 0;
       CU(cuMemAllocFromPoolAsync, &pointer, 4096, pool, nullptr);
       out("destroy", CU(cuMemPoolDestroy, pool));
       out("free", CU(cuMemFreeAsync, pointer, nullptr));
       out("sync", CU(cuStreamSynchronize, nullptr));
     },
     kOwnProcess},
    {"pool.block.1", kContext, [](Answer& out) { OneBlock(out, 1); }},
    {"pool.block.1m", kContext, [](Answer& out) { OneBlock(out, kMiB); }},
    {"pool.block.32m", kContext, [](Answer& out) { OneBlock(out, 32 * kMiB); }},
    {"pool.block.33m", kContext, [](Answer& out) { OneBlock(out, 33 * kMiB); }},
    {"pool.block.100m", kContext, [](Answer& out) { OneBlock(out, 100 * kMiB); }},
    {"pool.block.zero", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 77;
       out("result", CU(cuMemAllocAsync, &pointer, 0, nullptr));
       out("pointer", pointer == 0 ? "zero" : pointer == 77 ? "kept" : "set");
       out("null", CU(cuMemAllocAsync, nullptr, 4096, nullptr));
     }},
    {"pool.block.too-much", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       out("result", CU(cuMemAllocAsync, &pointer, size_t{1} << 45, nullptr));
       out("sync", CU(cuStreamSynchronize, nullptr));
       out("next", CU(cuMemAllocAsync, &pointer, 4096, nullptr));
       out("free", CU(cuMemFreeAsync, pointer, nullptr));
     }},
    {"pool.block.alignment", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       CUdeviceptr first = 0;
       CUdeviceptr second = 0;
       CU(cuMemAllocFromPoolAsync, &first, 1, pool, nullptr);
       CU(cuMemAllocFromPoolAsync, &second, 1, pool, nullptr);
       out("of-512", first % 512 == 0 && second % 512 == 0);
       out("distance", second > first ? second - first : first - second);
       CU(cuMemFreeAsync, first, nullptr);
       CU(cuMemFreeAsync, second, nullptr);
       CU(cuMemPoolDestroy, pool);
     }},
    {"pool.reuse.same-stream", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       CUdeviceptr first = 0;
       CUdeviceptr second = 0;
       CU(cuMemAllocFromPoolAsync, &first, kMiB, pool, nullptr);
       CU(cuMemFreeAsync, first, nullptr);
       CU(cuMemAllocFromPoolAsync, &second, kMiB, pool, nullptr);
       out("same", first == second);
       CU(cuMemFreeAsync, second, nullptr);
       CU(cuMemPoolDestroy, pool);
     }},
    {"pool.free.with-mem-free", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       CUdeviceptr pointer = 0;
       CU(cuMemAllocFromPoolAsync, &pointer, kMiB, pool, nullptr);
       out("free", CU(cuMemFree, pointer));
       Figures(out, pool);
       CU(cuMemPoolDestroy, pool);
     }},
    {"pool.free.linear-async", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, kMiB);
       out("free", CU(cuMemFreeAsync, pointer, nullptr));
       out("sync", CU(cuStreamSynchronize, nullptr));
       out("again", CU(cuMemFree, pointer));
     }},
    {"pool.free.bad", kContext,
     [](Answer& out) {
       out("zero", CU(cuMemFreeAsync, 0, nullptr));
       out("junk", CU(cuMemFreeAsync, 0x1234, nullptr));
     }},
    {"pool.free.twice", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAllocAsync, &pointer, kMiB, nullptr);
       out("first", CU(cuMemFreeAsync, pointer, nullptr));
       out("second", CU(cuMemFreeAsync, pointer, nullptr));
     }},
    {"pool.threshold", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       out("default", Attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
       cuuint64_t all = ~cuuint64_t{0};
       out("set", CU(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
       CUdeviceptr pointer = 0;
       CU(cuMemAllocFromPoolAsync, &pointer, 100 * kMiB, pool, nullptr);
       CU(cuMemFreeAsync, pointer, nullptr);
       CU(cuStreamSynchronize, nullptr);
       Figures(out, pool);
       out("trim", CU(cuMemPoolTrimTo, pool, 40 * kMiB));
       Figures(out, pool);
       out("trim", CU(cuMemPoolTrimTo, pool, 0));
       Figures(out, pool);
       CU(cuMemPoolDestroy, pool);
     }},
    {"pool.high-water", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       CUdeviceptr pointer = 0;
       CU(cuMemAllocFromPoolAsync, &pointer, 3 * kMiB, pool, nullptr);
       CU(cuMemFreeAsync, pointer, nullptr);
       CU(cuStreamSynchronize, nullptr);
       out("reserved-high", Attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
       out("used-high", Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
       cuuint64_t value = 5;
       out("set-5", CU(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
       value = 0;
       out("set-0", CU(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
       out("used-high", Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
       CU(cuMemPoolDestroy, pool);
     }},
    {"pool.attributes", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       for (int attribute = 0; attribute <= 12; ++attribute) {
         cuuint64_t value = 0;
         const CUresult result =
             CU(cuMemPoolGetAttribute, pool, static_cast<CUmemPool_attribute>(attribute), &value);
         out(std::to_string(attribute),
             result == CUDA_SUCCESS ? std::to_string(value) : Answer::ResultName(result));
       }
       CU(cuMemPoolDestroy, pool);
     }},
    {"pool.attributes.bad", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       cuuint64_t value = 0;
       out("null", CU(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, nullptr));
       out("null-pool",
           CU(cuMemPoolGetAttribute, nullptr, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
       out("set-used", CU(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
       CU(cuMemPoolDestroy, pool);
     }},
    {"pool.access", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       CUmemAccess_flags flags{};
       CUmemLocation location{};
       location.type = CU_MEM_LOCATION_TYPE_DEVICE;
       out("get", CU(cuMemPoolGetAccess, &flags, pool, &location));
       out("flags", static_cast<int>(flags));
       CUmemAccessDesc access{};
       access.location = location;
       access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
       out("set-none", CU(cuMemPoolSetAccess, pool, &access, 1));
       access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
       out("set-read", CU(cuMemPoolSetAccess, pool, &access, 1));
       CU(cuMemPoolDestroy, pool);
     }},
    {"pool.maximum", kContext,
     [](Answer& out) {
       CUmemPoolProps properties = Properties();
       properties.maxSize = 64 * kMiB;
       CUmemoryPool pool = MakePool(out, properties);
       CUdeviceptr first = 0;
       CUdeviceptr second = 0;
       out("40m", CU(cuMemAllocFromPoolAsync, &first, 40 * kMiB, pool, nullptr));
       out("40m-more", CU(cuMemAllocFromPoolAsync, &second, 40 * kMiB, pool, nullptr));
       Figures(out, pool);
       CU(cuMemFreeAsync, first, nullptr);
       CU(cuStreamSynchronize, nullptr);
       CU(cuMemPoolDestroy, pool);
     },
     kAlone},
    {"pool.current.set", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       out("set", CU(cuDeviceSetMemPool, 0, pool));
       CUdeviceptr pointer = 0;
       CU(cuMemAllocAsync, &pointer, kMiB, nullptr);
       out("used", Attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
       CU(cuMemFreeAsync, pointer, nullptr);
       CU(cuStreamSynchronize, nullptr);
       out("destroy-current", CU(cuMemPoolDestroy, pool));
       CUmemoryPool current = nullptr;
       CUmemoryPool standard = nullptr;
       CU(cuDeviceGetMemPool, &current, 0);
       CU(cuDeviceGetDefaultMemPool, &standard, 0);
       out("back-to-default", current == standard);
     },
     kOwnProcess},
    {"pool.export.not-shareable", kContext,
     [](Answer& out) {
       CUmemoryPool pool = MakePool(out);
       int descriptor = -1;
       out(CU(cuMemPoolExportToShareableHandle, &descriptor, pool,
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0U));
       CU(cuMemPoolDestroy, pool);
     }},
    {"pool.trim.bad", kContext, [](Answer& out) { out("null", CU(cuMemPoolTrimTo, nullptr, 0)); }},
};

}  // namespace

std::span<const Case> PoolCases() { return kCases; }

}  // namespace krux::sim::conformance
