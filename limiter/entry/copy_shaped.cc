// Copies whose sides are found out only here: unified addresses, rows and volumes, arrays. Those
// that stay within the device use it like a kernel and pass the gate; all others go straight on.
#include "limiter/entry/entry.h"

namespace {

using namespace krux::limiter;

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

// Memory that the driver does not know is the host's.
bool IsOnDevice(CUdeviceptr address) {
  unsigned type = 0;
  return Real().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
             CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE;
}

bool IsOnDevice(CUmemorytype type, CUdeviceptr address) {
  if (type == CU_MEMORYTYPE_UNIFIED) return IsOnDevice(address);
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY;
}

uint64_t VolumeOf(const CUDA_MEMCPY2D& copy) { return Product(copy.WidthInBytes, copy.Height); }
uint64_t VolumeOf(const CUDA_MEMCPY3D& copy) {
  return Product(Product(copy.WidthInBytes, copy.Height), copy.Depth);
}

template <typename Call>
CUresult Within(uint64_t bytes, CUstream stream, DefaultStream default_stream, Call call) {
  return GatedLaunch(stream, default_stream, WorkCost(WorkKind::kCopy, bytes), call);
}

template <typename Call>
CUresult Unified(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream,
                 DefaultStream default_stream, Call call) {
  const EntryGuard guard;
  if (!guard.active() || !IsOnDevice(to) || !IsOnDevice(from)) return call();
  return Within(bytes, stream, default_stream, call);
}

template <typename Copy, typename Call>
CUresult Shaped(const Copy* copy, CUstream stream, DefaultStream default_stream, Call call) {
  const EntryGuard guard;
  if (!guard.active() || copy == nullptr || !IsOnDevice(copy->dstMemoryType, copy->dstDevice) ||
      !IsOnDevice(copy->srcMemoryType, copy->srcDevice)) {
    return call();
  }
  return Within(VolumeOf(*copy), stream, default_stream, call);
}

template <typename Call>
CUresult OfArrays(size_t bytes, DefaultStream default_stream, Call call) {
  const EntryGuard guard;
  if (!guard.active()) return call();
  return Within(bytes, nullptr, default_stream, call);
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Unified(to, from, bytes, nullptr, kLegacy,
                 [&] { return Real().cuMemcpy(to, from, bytes); });
}

CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Unified(to, from, bytes, nullptr, kPerThread,
                 [&] { return Real().cuMemcpy_ptds(to, from, bytes); });
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Unified(to, from, bytes, stream, kLegacy,
                 [&] { return Real().cuMemcpyAsync(to, from, bytes, stream); });
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Unified(to, from, bytes, stream, kPerThread,
                 [&] { return Real().cuMemcpyAsync_ptsz(to, from, bytes, stream); });
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) {
  return Shaped(copy, nullptr, kLegacy, [&] { return Real().cuMemcpy2D_v2(copy); });
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return Shaped(copy, nullptr, kPerThread, [&] { return Real().cuMemcpy2D_v2_ptds(copy); });
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  return Shaped(copy, nullptr, kLegacy, [&] { return Real().cuMemcpy2DUnaligned_v2(copy); });
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return Shaped(copy, nullptr, kPerThread,
                [&] { return Real().cuMemcpy2DUnaligned_v2_ptds(copy); });
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Shaped(copy, stream, kLegacy, [&] { return Real().cuMemcpy2DAsync_v2(copy, stream); });
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Shaped(copy, stream, kPerThread,
                [&] { return Real().cuMemcpy2DAsync_v2_ptsz(copy, stream); });
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) {
  return Shaped(copy, nullptr, kLegacy, [&] { return Real().cuMemcpy3D_v2(copy); });
}

CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* copy) {
  return Shaped(copy, nullptr, kPerThread, [&] { return Real().cuMemcpy3D_v2_ptds(copy); });
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return Shaped(copy, stream, kLegacy, [&] { return Real().cuMemcpy3DAsync_v2(copy, stream); });
}

CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return Shaped(copy, stream, kPerThread,
                [&] { return Real().cuMemcpy3DAsync_v2_ptsz(copy, stream); });
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                         size_t bytes) {
  return OfArrays(bytes, kLegacy,
                  [&] { return Real().cuMemcpyAtoA_v2(to, to_offset, from, from_offset, bytes); });
}

CUresult cuMemcpyAtoA_v2_ptds(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                              size_t bytes) {
  return OfArrays(bytes, kPerThread, [&] {
    return Real().cuMemcpyAtoA_v2_ptds(to, to_offset, from, from_offset, bytes);
  });
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return OfArrays(bytes, kLegacy, [&] { return Real().cuMemcpyDtoA_v2(to, offset, from, bytes); });
}

CUresult cuMemcpyDtoA_v2_ptds(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return OfArrays(bytes, kPerThread,
                  [&] { return Real().cuMemcpyDtoA_v2_ptds(to, offset, from, bytes); });
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return OfArrays(bytes, kLegacy, [&] { return Real().cuMemcpyAtoD_v2(to, from, offset, bytes); });
}

CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return OfArrays(bytes, kPerThread,
                  [&] { return Real().cuMemcpyAtoD_v2_ptds(to, from, offset, bytes); });
}
