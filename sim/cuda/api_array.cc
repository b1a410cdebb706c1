// Arrays and mipmapped arrays.
#include "sim/cuda/array.h"

#include <algorithm>
#include <bit>

#include "sim/cuda/capture.h"
#include "sim/cuda/memory.h"

using krux::sim::Array;
using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::FormatBytes;
using krux::sim::MipmappedArray;

namespace {

// Of an H200: what has one dimension may be wider than what has two.
constexpr size_t kMaxExtent = 131072;
constexpr unsigned kKnownFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                                 CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                                 CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT |
                                 CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

// Fills in the array's shape; false for one that no card has.
bool Shape(const CUDA_ARRAY3D_DESCRIPTOR& d, Array* array) {
  const bool has_channels = d.NumChannels == 1 || d.NumChannels == 2 || d.NumChannels == 4;
  if (d.Width == 0 || d.Width > kMaxExtent || d.Height > kMaxExtent || d.Depth > kMaxExtent ||
      !has_channels || FormatBytes(d.Format) == 0 || (d.Flags & ~kKnownFlags) != 0 ||
      (d.Depth > 0 && d.Height == 0 && (d.Flags & CUDA_ARRAY3D_LAYERED) == 0)) {
    return false;
  }
  if ((d.Flags & CUDA_ARRAY3D_CUBEMAP) != 0 && (d.Width != d.Height || d.Depth % 6 != 0)) {
    return false;
  }
  array->descriptor = d;
  array->element_bytes = FormatBytes(d.Format) * d.NumChannels;
  return true;
}

// Has no memory of its own until some is mapped (which is not simulated): it can be asked how much
// it would need, and destroyed.
bool IsDeferred(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  return (descriptor.Flags & (CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_SPARSE)) != 0;
}

constexpr size_t kRequirementAlignment = 64 * 1024;

CUresult Requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, size_t bytes) {
  *out = {};
  out->size = (bytes + kRequirementAlignment - 1) / kRequirementAlignment * kRequirementAlignment;
  out->alignment = kRequirementAlignment;
  return CUDA_SUCCESS;
}

CUresult Create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  KRUX_SIM_CONTEXT(context);
  Array shape;
  if (out == nullptr || !Shape(descriptor, &shape)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = krux::sim::CheckAllowedInCapture(); r != CUDA_SUCCESS) return r;
  // Three extents of at most 2^17 and 16 bytes an element could wrap.
  const uint64_t plane = uint64_t{shape.row_bytes()} * shape.rows();
  if (plane > (uint64_t{1} << 40) / shape.layers()) return CUDA_ERROR_OUT_OF_MEMORY;
  CUdeviceptr address = 0;
  if (!IsDeferred(descriptor)) {
    const CUresult result = context->device->memory().Allocate(
        context, plane * shape.layers(), krux::sim::MemoryKind::kArray, &address);
    if (result != CUDA_SUCCESS) return result;
  }
  auto* array = krux::sim::Make<Array>();
  array->descriptor = descriptor;
  array->element_bytes = shape.element_bytes;
  array->device = context->device;
  array->address = address;
  *out = reinterpret_cast<CUarray>(array);
  return CUDA_SUCCESS;
}

// Down to one element.
unsigned MostLevels(const CUDA_ARRAY3D_DESCRIPTOR& d) {
  const size_t depth = (d.Flags & CUDA_ARRAY3D_LAYERED) == 0 ? d.Depth : 0;
  return static_cast<unsigned>(std::bit_width(std::max({d.Width, d.Height, depth})));
}

// What one tile of a sparse array is: 64 KiB. Elements of 4 bytes as seen on an H200.
bool TileOf(const Array& array, CUDA_ARRAY_SPARSE_PROPERTIES* out) {
  if ((array.descriptor.Flags & CUDA_ARRAY3D_SPARSE) == 0 || array.element_bytes != 4) return false;
  *out = {};
  const bool is_3d = array.descriptor.Depth > 0;
  out->tileExtent.width = is_3d ? 32 : 128;
  out->tileExtent.height = is_3d ? 32 : 128;
  out->tileExtent.depth = is_3d ? 16 : 1;
  return true;
}

CUDA_ARRAY3D_DESCRIPTOR LevelOf(CUDA_ARRAY3D_DESCRIPTOR d, unsigned level) {
  d.Width = std::max<size_t>(d.Width >> level, 1);
  if (d.Height > 0) d.Height = std::max<size_t>(d.Height >> level, 1);
  if (d.Depth > 0 && (d.Flags & CUDA_ARRAY3D_LAYERED) == 0) {
    d.Depth = std::max<size_t>(d.Depth >> level, 1);
  }
  return d;
}

}  // namespace

size_t krux::sim::FormatBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

CUresult CUDAAPI cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Create(out, *descriptor);
}

CUresult CUDAAPI cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* d) {
  if (d == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Create(out, {d->Width, d->Height, 0, d->Format, d->NumChannels, 0});
}

CUresult CUDAAPI cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* descriptor, CUarray handle) {
  KRUX_SIM_READY();
  Array* array = Checked<Array>(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *descriptor = array->descriptor;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  CUDA_ARRAY3D_DESCRIPTOR d;
  const CUresult result = cuArray3DGetDescriptor_v2(&d, handle);
  if (result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {d.Width, d.Height, d.Format, d.NumChannels};
  return CUDA_SUCCESS;
}

// As a real driver: only for arrays whose mapping is deferred.
CUresult CUDAAPI cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray handle,
                                              CUdevice) {
  KRUX_SIM_READY();
  Array* array = Checked<Array>(handle);
  if (array == nullptr || out == nullptr || !IsDeferred(array->descriptor)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Requirements(out, array->row_bytes() * array->rows() * array->layers());
}

CUresult CUDAAPI cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                                       CUmipmappedArray handle, CUdevice) {
  KRUX_SIM_READY();
  MipmappedArray* mipmap = Checked<MipmappedArray>(handle);
  if (mipmap == nullptr || out == nullptr || !mipmap->is_deferred) return CUDA_ERROR_INVALID_VALUE;
  return Requirements(out, mipmap->bytes);
}

CUresult CUDAAPI cuArrayDestroy(CUarray handle) {
  KRUX_SIM_CONTEXT(context);
  Array* array = Checked<Array>(handle);
  if (array == nullptr || array->is_level) return CUDA_ERROR_INVALID_HANDLE;
  SynchronizeContext(context);
  if (!IsDeferred(array->descriptor)) array->device->memory().Free(array->address);
  krux::sim::Bury(array);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray* out,
                                        const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                        unsigned int levels) {
  KRUX_SIM_CONTEXT(context);
  Array shape;
  if (out == nullptr || descriptor == nullptr || !Shape(*descriptor, &shape)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  levels = std::clamp(levels, 1U, MostLevels(*descriptor));
  auto* mipmap = krux::sim::Make<MipmappedArray>();
  mipmap->device = context->device;
  uint64_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    auto* array = krux::sim::Make<Array>();
    array->descriptor = LevelOf(*descriptor, level);
    array->element_bytes = shape.element_bytes;
    array->device = context->device;
    array->is_level = true;
    array->address = bytes;  // relative, until the whole has an address
    bytes += (uint64_t{array->row_bytes()} * array->rows() * array->layers() + 511) / 512 * 512;
    mipmap->levels.push_back(array);
  }
  mipmap->bytes = bytes;
  mipmap->is_deferred = IsDeferred(*descriptor);
  const CUresult result =
      mipmap->is_deferred ? CUDA_SUCCESS
                          : context->device->memory().Allocate(
                                context, bytes, krux::sim::MemoryKind::kArray, &mipmap->address);
  for (Array* array : mipmap->levels) array->address += mipmap->address;
  *out = reinterpret_cast<CUmipmappedArray>(mipmap);
  if (result == CUDA_SUCCESS) return CUDA_SUCCESS;
  for (Array* array : mipmap->levels) krux::sim::Bury(array);
  krux::sim::Bury(mipmap);
  *out = nullptr;
  return result;
}

CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle,
                                          unsigned int level) {
  KRUX_SIM_READY();
  MipmappedArray* mipmap = Checked<MipmappedArray>(handle);
  if (mipmap == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || level >= mipmap->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUarray>(mipmap->levels[level]);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  KRUX_SIM_CONTEXT(context);
  MipmappedArray* mipmap = Checked<MipmappedArray>(handle);
  if (mipmap == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  SynchronizeContext(context);
  if (!mipmap->is_deferred) mipmap->device->memory().Free(mipmap->address);
  for (Array* array : mipmap->levels) krux::sim::Bury(array);
  krux::sim::Bury(mipmap);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUarray handle) {
  KRUX_SIM_READY();
  const Array* array = Checked<Array>(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return out != nullptr && TileOf(*array, out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Planes are parts of video formats, which no array here has.
CUresult CUDAAPI cuArrayGetPlane(CUarray* plane, CUarray handle, unsigned int) {
  KRUX_SIM_READY();
  if (Checked<Array>(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (plane != nullptr) *plane = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}
