// cuMemCreate, cuMemAddressReserve, cuMemMap and their kin.
#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "sim/cuda/driver.h"
#include "sim/cuda/ipc.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/shared_hold.h"
#include "sim/cuda/vmm.h"

using krux::sim::Device;
using krux::sim::FindDevice;
using krux::sim::kChunkBytes;

namespace {

struct Handle : krux::sim::Tagged {
  static constexpr uint32_t kTag = 0x564d4d48;
  Device* device = nullptr;
  uint64_t bytes = 0;
  int references = 1;   // the program's, and one for each mapping
  bool pays = true;     // false: imported, another process pays
  krux::UniqueFd file;  // where the bytes lie, of memory that can be shared
  CUmemAllocationProp properties{};
};

struct Mapping {
  uint64_t bytes = 0;
  Handle* handle = nullptr;
  bool has_access = false;
};

std::mutex g_mutex;  // guards the mappings and the handles' references
std::map<CUdeviceptr, Mapping>& Mappings() {
  static auto* mappings = new std::map<CUdeviceptr, Mapping>;
  return *mappings;
}

Handle* CheckedHandle(CUmemGenericAllocationHandle handle) {
  return krux::sim::Checked<Handle>(handle);
}

// REQUIRES: g_mutex held.
void Drop(Handle* handle) {
  if (--handle->references > 0) return;
  krux::UniqueFd file = std::move(handle->file);
  if (handle->pays) krux::sim::RefundWhenUnused(handle->device, handle->bytes, std::move(file));
  krux::sim::Bury(handle);
}

// Mappings from `address` on that fill `bytes` without a gap; false when they do not.
// REQUIRES: g_mutex held.
template <typename F>
bool ForEachMapping(CUdeviceptr address, uint64_t bytes, F visit) {
  auto next = Mappings().upper_bound(address);
  if (next == Mappings().begin()) return false;
  --next;
  const CUdeviceptr end = address + bytes;
  CUdeviceptr reached = next->first;
  for (; reached < end; ++next) {
    if (next == Mappings().end() || next->first != reached) return false;
    reached += next->second.bytes;
    if (reached <= address) return false;
    visit(next->first, next->second);
  }
  return true;
}

// Bytes of the handle's one mapping move into a file that a second one shares. REQUIRES: g_mutex
// held.
bool ShareBytes(Handle* handle) {
  if (handle->file.valid()) return true;
  handle->file = krux::sim::MakeSharedFile(handle->device->card_index(), handle->bytes);
  if (!handle->file.valid()) return false;
  for (const auto& [address, mapping] : Mappings()) {
    if (mapping.handle != handle) continue;
    if (!handle->device->memory().ShareKept(address, mapping.bytes, handle->file.get())) {
      return false;
    }
  }
  return true;
}

CUresult CheckProperties(const CUmemAllocationProp* properties, Device** device) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int types = properties->requestedHandleTypes;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      (types & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *device = FindDevice(properties->location.id);
  return *device == nullptr ? CUDA_ERROR_INVALID_DEVICE : (*device)->Attach();
}

// The card whose range holds a reserved address.
Device* OwnerOf(CUdeviceptr address) {
  for (const auto& device : krux::sim::Devices()) {
    if (device->is_attached() && device->memory().Contains(address)) return device.get();
  }
  return nullptr;
}

bool IsReserved(CUdeviceptr address, uint64_t bytes) {
  krux::sim::Allocation range;
  return krux::sim::FindAllocation(address, &range) &&
         range.kind == krux::sim::MemoryKind::kReserved &&
         bytes <= range.bytes - (address - range.address);
}

}  // namespace

bool krux::sim::IsMapped(CUdeviceptr address, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  bool has_access = true;
  const bool is_whole =
      ForEachMapping(address, std::max<uint64_t>(bytes, 1),
                     [&](CUdeviceptr, Mapping& m) { has_access &= m.has_access; });
  return is_whole && has_access;
}

bool krux::sim::HasMapping(CUdeviceptr address) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  return ForEachMapping(address, 1, [](CUdeviceptr, Mapping&) {});
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* granularity,
                                               const CUmemAllocationProp* properties,
                                               CUmemAllocationGranularity_flags option) {
  KRUX_SIM_READY();
  if (granularity == nullptr || properties == nullptr ||
      (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
       option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *granularity = kChunkBytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                             const CUmemAllocationProp* properties, unsigned long long flags) {
  KRUX_SIM_READY();
  Device* device = nullptr;
  if (const CUresult r = CheckProperties(properties, &device); r != CUDA_SUCCESS) return r;
  if (out == nullptr || flags != 0 || bytes == 0 || bytes % kChunkBytes != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!device->memory().Charge(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* handle = krux::sim::Make<Handle>();
  handle->device = device;
  handle->bytes = bytes;
  handle->properties = *properties;
  if (properties->requestedHandleTypes != 0) {
    handle->file = krux::sim::MakeSharedFile(device->card_index(), bytes);
    if (!handle->file.valid()) {
      device->memory().Refund(bytes);
      krux::sim::Bury(handle);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle value) {
  KRUX_SIM_READY();
  const std::lock_guard<std::mutex> lock(g_mutex);
  Handle* handle = CheckedHandle(value);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Drop(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                        CUmemGenericAllocationHandle value) {
  KRUX_SIM_READY();
  Handle* handle = CheckedHandle(value);
  if (handle == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = handle->properties;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr,
                                     unsigned long long flags) {
  KRUX_SIM_READY();
  const bool is_power = (alignment & (alignment - 1)) == 0;
  if (out == nullptr || bytes == 0 || bytes % kChunkBytes != 0 || flags != 0 || !is_power) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  krux::sim::Context* context = krux::sim::CurrentContext();
  Device* device = context != nullptr ? context->device : FindDevice(0);
  if (const CUresult r = device->Attach(); r != CUDA_SUCCESS) return r;
  return device->memory().Reserve(nullptr, bytes, alignment, krux::sim::MemoryKind::kReserved,
                                  nullptr, out);
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  KRUX_SIM_READY();
  krux::sim::Allocation range;
  if (!krux::sim::FindAllocation(address, &range) || range.address != address ||
      range.bytes != bytes || range.kind != krux::sim::MemoryKind::kReserved) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    const auto first = Mappings().lower_bound(address);
    if (first != Mappings().end() && first->first < address + bytes)
      return CUDA_ERROR_INVALID_VALUE;
  }
  return range.device->memory().Free(address);
}

CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                          CUmemGenericAllocationHandle value, unsigned long long flags) {
  KRUX_SIM_READY();
  if (address % kChunkBytes != 0 || bytes == 0 || flags != 0 || !IsReserved(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard<std::mutex> lock(g_mutex);
  Handle* handle = CheckedHandle(value);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The real driver, too, maps handles only as a whole.
  if (offset != 0 || bytes != handle->bytes) return CUDA_ERROR_NOT_SUPPORTED;
  auto after = Mappings().lower_bound(address + bytes);
  if (after != Mappings().begin()) {
    const auto& [start, mapping] = *std::prev(after);
    if (start + mapping.bytes > address) return CUDA_ERROR_INVALID_VALUE;
  }
  const bool is_mapped =
      std::any_of(Mappings().begin(), Mappings().end(),
                  [handle](const auto& mapping) { return mapping.second.handle == handle; });
  if (is_mapped && !ShareBytes(handle)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (handle->file.valid() &&
      !OwnerOf(address)->memory().Share(address, bytes, handle->file.get(), 0)) {
    return CUDA_ERROR_MAP_FAILED;
  }
  Mappings()[address] = {bytes, handle, false};
  ++handle->references;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes) {
  KRUX_SIM_READY();
  Device* owner = OwnerOf(address);
  if (owner == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::vector<CUdeviceptr> whole;
  CUdeviceptr end = 0;
  const bool is_mapped = ForEachMapping(address, bytes, [&](CUdeviceptr start, Mapping& mapping) {
    whole.push_back(start);
    end = start + mapping.bytes;
  });
  // Where nothing is mapped there is nothing to do.
  if (whole.empty() && IsReserved(address, bytes)) return CUDA_SUCCESS;
  if (!is_mapped || whole.front() != address || end != address + bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const CUdeviceptr start : whole) {
    const Mapping mapping = Mappings()[start];
    Mappings().erase(start);
    Drop(mapping.handle);
  }
  owner->memory().Discard(address, bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                                size_t count) {
  KRUX_SIM_READY();
  if (access == nullptr || count == 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        FindDevice(access[i].location.id) == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  const bool has_access = access[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const std::lock_guard<std::mutex> lock(g_mutex);
  const bool is_mapped =
      ForEachMapping(address, bytes, [](CUdeviceptr, Mapping&) {}) &&
      ForEachMapping(address, bytes, [&](CUdeviceptr, Mapping& m) { m.has_access = has_access; });
  return is_mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                CUdeviceptr address) {
  KRUX_SIM_READY();
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = krux::sim::IsMapped(address, 1) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                           : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out, void* pointer) {
  KRUX_SIM_READY();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(g_mutex);
  Handle* handle = nullptr;
  ForEachMapping(reinterpret_cast<CUdeviceptr>(pointer), 1,
                 [&](CUdeviceptr, Mapping& mapping) { handle = mapping.handle; });
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++handle->references;
  *out = reinterpret_cast<CUmemGenericAllocationHandle>(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle value,
                                              CUmemAllocationHandleType type,
                                              unsigned long long flags) {
  KRUX_SIM_READY();
  const std::lock_guard<std::mutex> lock(g_mutex);
  Handle* handle = CheckedHandle(value);
  if (handle == nullptr || out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !handle->file.valid()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!krux::sim::MarkExported(handle->file)) return CUDA_ERROR_OPERATING_SYSTEM;
  const int fd = fcntl(handle->file.get(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

// `source` is the descriptor itself, as the API has it.
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out, void* source,
                                                CUmemAllocationHandleType type) {
  KRUX_SIM_READY();
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(source));
  uint32_t card = 0;
  uint64_t bytes = 0;
  if (!krux::sim::ReadSharedFile(fd, &card, &bytes)) return CUDA_ERROR_UNKNOWN;
  for (const auto& device : krux::sim::Devices()) {
    if (device->card_index() != card) continue;
    if (const CUresult r = device->Attach(); r != CUDA_SUCCESS) return r;
    auto* handle = krux::sim::Make<Handle>();
    handle->device = device.get();
    handle->bytes = bytes;
    handle->pays = false;
    handle->file.Reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    handle->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    handle->properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device->ordinal()}};
    handle->properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    *out = reinterpret_cast<CUmemGenericAllocationHandle>(handle);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}
