// Linear, pitched and managed memory.
#include "limiter/entry/entry.h"

namespace {

using namespace krux::limiter;

constexpr uint64_t kWidestAlignment = 512;  // of a pitch

// Up to 1 MiB: in a slab that may be there already. A new one is charged ahead when it fits; when
// it does not, the block may still find room in a slab that is charged.
CUresult AllocateSmall(CUdeviceptr* address, size_t bytes, uint32_t gpu) {
  Process& self = Self();
  bool charged = self.account.Charge(gpu, kSlabBytes);
  if (!charged && !self.allocations.SmallMayFit(bytes, gpu)) {
    charged = self.pools.TrimAll(gpu) && self.account.Charge(gpu, kSlabBytes);
    if (!charged) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = Real().cuMemAlloc_v2(address, bytes);
  if (result != CUDA_SUCCESS) {
    if (charged) self.account.Return(gpu, kSlabBytes);
    return result;
  }
  const Allocations::Record record{bytes, CurrentContextNumber(), gpu, true};
  if (self.allocations.AddSmall(*address, record, charged)) return CUDA_SUCCESS;
  Real().cuMemFree_v2(*address);
  *address = 0;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult AllocateLarge(CUdeviceptr* address, size_t bytes, uint32_t gpu) {
  const uint64_t size = OwnBytes(bytes);
  return ChargedAllocation(
      gpu, size, [&] { return Real().cuMemAlloc_v2(address, bytes); }, [&] { return size; },
      [&] { return *address; },
      [&] {
        Real().cuMemFree_v2(*address);
        *address = 0;
      });
}

}  // namespace

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  const EntryGuard guard;
  if (!guard.active() || address == nullptr || bytes == 0) {
    return Real().cuMemAlloc_v2(address, bytes);
  }
  const uint32_t gpu = Self().devices.CurrentGpu();
  if (gpu == Devices::kNotGranted) return Real().cuMemAlloc_v2(address, bytes);
  return SharesSlab(bytes) ? AllocateSmall(address, bytes, gpu)
                           : AllocateLarge(address, bytes, gpu);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                            unsigned int element_bytes) {
  const auto call = [&] {
    return Real().cuMemAllocPitch_v2(address, pitch, width, height, element_bytes);
  };
  const EntryGuard guard;
  if (!guard.active() || address == nullptr || pitch == nullptr) return call();
  return ChargedAllocation(
      Self().devices.CurrentGpu(), OwnBytes(Product(RoundUp(width, kWidestAlignment), height)),
      call, [&] { return OwnBytes(Product(*pitch, height)); }, [&] { return *address; },
      [&] {
        Real().cuMemFree_v2(*address);
        *address = 0;
      });
}

// Counted as if all of it were on the card: it can be, at any time, without a call.
CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int flags) {
  const auto call = [&] { return Real().cuMemAllocManaged(address, bytes, flags); };
  const EntryGuard guard;
  const uint32_t gpu = guard.active() ? Self().devices.CurrentGpu() : Devices::kNotGranted;
  if (gpu == Devices::kNotGranted || address == nullptr) return call();
  Process& self = Self();
  const uint64_t size = OwnBytes(bytes);
  if (!self.managed.Grow(gpu, size) && !(self.pools.TrimAll(gpu) && self.managed.Grow(gpu, size))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUresult result = call();
  if (result == CUDA_SUCCESS &&
      self.allocations.Add(*address, {size, CurrentContextNumber(), gpu, false, false, true})) {
    return CUDA_SUCCESS;
  }
  self.managed.Undo(gpu, size);
  if (result != CUDA_SUCCESS) return result;
  Real().cuMemFree_v2(*address);
  *address = 0;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuMemFree_v2(address);
  Self().pools.NoteFree();  // stream-ordered memory may be freed here too
  return ChargedFree(address, [&] { return Real().cuMemFree_v2(address); });
}

// The first generation, with 32-bit addresses. Where a driver still answers it, it is counted too.
CUresult cuMemAlloc(CUdeviceptr_v1* address, unsigned int bytes) {
  const auto call = [&] { return Real().cuMemAlloc(address, bytes); };
  const EntryGuard guard;
  if (!guard.active() || address == nullptr) return call();
  const uint64_t size = OwnBytes(bytes);
  return ChargedAllocation(
      Self().devices.CurrentGpu(), size, call, [&] { return size; }, [&] { return *address; },
      [&] { Real().cuMemFree(*address); });
}

CUresult cuMemAllocPitch(CUdeviceptr_v1* address, unsigned int* pitch, unsigned int width,
                         unsigned int height, unsigned int element_bytes) {
  const auto call = [&] {
    return Real().cuMemAllocPitch(address, pitch, width, height, element_bytes);
  };
  const EntryGuard guard;
  if (!guard.active() || address == nullptr || pitch == nullptr) return call();
  return ChargedAllocation(
      Self().devices.CurrentGpu(), OwnBytes(Product(RoundUp(width, kWidestAlignment), height)),
      call, [&] { return OwnBytes(Product(*pitch, height)); }, [&] { return *address; },
      [&] { Real().cuMemFree(*address); });
}

CUresult cuMemFree(CUdeviceptr_v1 address) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuMemFree(address);
  return ChargedFree(address, [&] { return Real().cuMemFree(address); });
}
