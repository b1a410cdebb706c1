// Copies with a shape: 2D, 3D and arrays.
#include <algorithm>

#include "sim/cuda/array.h"
#include "sim/cuda/copy.h"

using krux::sim::Array;
using krux::sim::Checked;
using krux::sim::HostSideOf;
using krux::sim::RunCopy;
using krux::sim::Shape;
using krux::sim::Side;
using krux::sim::SideOf;

namespace {

// One end of a 2D or 3D copy as the API describes it.
struct End {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  size_t x, y, z;
  size_t pitch, height;
};

bool ArraySide(const End& end, const Shape& shape, Side* side) {
  const Array* array = Checked<Array>(end.array);
  if (array == nullptr || end.x > array->row_bytes() || shape.width > array->row_bytes() - end.x ||
      end.y > array->rows() || shape.rows > array->rows() - end.y || end.z > array->layers() ||
      shape.layers > array->layers() - end.z) {
    return false;
  }
  const size_t pitch = array->row_bytes();
  if (!SideOf(array->address, pitch * array->rows() * array->layers(), side)) return false;
  side->pitch = pitch;
  side->layer = pitch * array->rows();
  side->start += end.z * side->layer + end.y * pitch + end.x;
  return true;
}

bool LinearSide(const End& end, const Shape& shape, Side* side) {
  const size_t pitch = end.pitch != 0 ? end.pitch : shape.width + end.x;
  const size_t height = end.height != 0 ? end.height : shape.rows + end.y;
  constexpr size_t kMost = size_t{1} << 40;
  if (pitch > kMost || height > kMost / pitch || end.z > kMost || shape.layers > kMost ||
      pitch < shape.width || end.y > kMost) {
    return false;
  }
  const size_t offset = end.z * pitch * height + end.y * pitch + end.x;
  const size_t bytes = (shape.layers - 1) * pitch * height + (shape.rows - 1) * pitch + shape.width;
  if (end.height != 0 && end.height < shape.rows + end.y) return false;
  if (end.type == CU_MEMORYTYPE_HOST) {
    const bool is_there = end.host != nullptr;
    if (!is_there || !HostSideOf(static_cast<const char*>(end.host) + offset, bytes, side)) {
      return false;
    }
  } else if (end.device == 0 || !SideOf(end.device + offset, bytes, side)) {
    return false;
  }
  side->pitch = pitch;
  side->layer = pitch * height;
  return true;
}

bool SideOfEnd(const End& end, const Shape& shape, Side* side) {
  switch (end.type) {
    case CU_MEMORYTYPE_ARRAY:
      return ArraySide(end, shape, side);
    case CU_MEMORYTYPE_HOST:
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      return LinearSide(end, shape, side);
    default:
      return false;
  }
}

CUresult Copy(CUstream stream, const End& to, const End& from, const Shape& shape, bool waits) {
  KRUX_SIM_READY();
  if (shape.width == 0 || shape.rows == 0 || shape.layers == 0) return CUDA_SUCCESS;
  Side to_side;
  Side from_side;
  if (!SideOfEnd(to, shape, &to_side) || !SideOfEnd(from, shape, &from_side)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return RunCopy(stream, to_side, from_side, shape, waits);
}

CUresult Copy2D(CUstream stream, const CUDA_MEMCPY2D* c, bool waits) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const End to = {
      c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes, c->dstY, 0,
      c->dstPitch,      0};
  const End from = {
      c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes, c->srcY, 0,
      c->srcPitch,      0};
  return Copy(stream, to, from, {c->WidthInBytes, c->Height, 1}, waits);
}

void EndsOf(const CUDA_MEMCPY3D& c, End* to, End* from) {
  *to = {c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstXInBytes,
         c.dstY,          c.dstZ,    c.dstPitch,  c.dstHeight};
  *from = {c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcXInBytes,
           c.srcY,          c.srcZ,    c.srcPitch,  c.srcHeight};
}

CUresult Copy3D(CUstream stream, const CUDA_MEMCPY3D* c, bool waits) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (c->srcLOD != 0 || c->dstLOD != 0) return CUDA_ERROR_NOT_SUPPORTED;
  End to{};
  End from{};
  EndsOf(*c, &to, &from);
  return Copy(stream, to, from, {c->WidthInBytes, c->Height, c->Depth}, waits);
}

// A run of bytes inside a one-dimensional array.
End InArray(CUarray array, size_t offset) {
  return {CU_MEMORYTYPE_ARRAY, nullptr, 0, array, offset, 0, 0, 0, 0};
}
End OnHost(const void* pointer) { return {CU_MEMORYTYPE_HOST, pointer, 0, nullptr, 0, 0, 0, 0, 0}; }
End OnDevice(CUdeviceptr address) {
  return {CU_MEMORYTYPE_DEVICE, nullptr, address, nullptr, 0, 0, 0, 0, 0};
}

}  // namespace

CUresult krux::sim::CopyWork3D(const CUDA_MEMCPY3D* c, Work* work) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (c->srcLOD != 0 || c->dstLOD != 0) return CUDA_ERROR_NOT_SUPPORTED;
  End to{};
  End from{};
  EndsOf(*c, &to, &from);
  const krux::sim::Shape shape = {c->WidthInBytes, c->Height, c->Depth};
  Side to_side;
  Side from_side;
  if (shape.width == 0 || shape.rows == 0 || shape.layers == 0 || !SideOfEnd(to, shape, &to_side) ||
      !SideOfEnd(from, shape, &from_side)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *work = CopyWork(to_side, from_side, shape);
  auto parameters = std::make_shared<NodeParameters>();
  parameters->copy = *c;
  work->parameters = std::move(parameters);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) { return Copy2D(nullptr, copy, true); }
CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  return Copy2D(nullptr, copy, true);
}
CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Copy2D(stream, copy, false);
}
CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) { return Copy3D(nullptr, copy, true); }
CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return Copy3D(stream, copy, false);
}

CUresult CUDAAPI cuMemcpyHtoA_v2(CUarray array, size_t offset, const void* from, size_t bytes) {
  return Copy(nullptr, InArray(array, offset), OnHost(from), {bytes, 1, 1}, true);
}
CUresult CUDAAPI cuMemcpyHtoAAsync_v2(CUarray array, size_t offset, const void* from, size_t bytes,
                                      CUstream stream) {
  return Copy(stream, InArray(array, offset), OnHost(from), {bytes, 1, 1}, false);
}
CUresult CUDAAPI cuMemcpyAtoH_v2(void* to, CUarray array, size_t offset, size_t bytes) {
  return Copy(nullptr, OnHost(to), InArray(array, offset), {bytes, 1, 1}, true);
}
CUresult CUDAAPI cuMemcpyAtoHAsync_v2(void* to, CUarray array, size_t offset, size_t bytes,
                                      CUstream stream) {
  return Copy(stream, OnHost(to), InArray(array, offset), {bytes, 1, 1}, false);
}
CUresult CUDAAPI cuMemcpyDtoA_v2(CUarray array, size_t offset, CUdeviceptr from, size_t bytes) {
  return Copy(nullptr, InArray(array, offset), OnDevice(from), {bytes, 1, 1}, false);
}
CUresult CUDAAPI cuMemcpyAtoD_v2(CUdeviceptr to, CUarray array, size_t offset, size_t bytes) {
  return Copy(nullptr, OnDevice(to), InArray(array, offset), {bytes, 1, 1}, false);
}
