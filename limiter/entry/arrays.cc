// Arrays and mipmapped arrays, by the size that the driver itself gives for an array of the same
// description whose memory is deferred; by an upper bound (sizes.h) where it gives none. Sparse
// ones and those with deferred mapping have no memory of their own: what is mapped into them is
// charged where it is made.
#include "limiter/entry/entry.h"

namespace {

using namespace krux::limiter;

constexpr unsigned kWithoutMemory = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

// Compressed and planar formats take at most 16 bytes an element.
uint64_t BytesOfFormat(CUarray_format format) {
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
      return 16;
  }
}

uint64_t ElementBytes(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  return BytesOfFormat(descriptor.Format) *
         (descriptor.NumChannels == 0 ? 1 : descriptor.NumChannels);
}

ArrayShape ShapeOf(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  return {descriptor.Width, descriptor.Height, descriptor.Depth, ElementBytes(descriptor)};
}

// The driver tells the size only of arrays without memory: one is made and asked.
uint64_t SizeOf(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  CUDA_ARRAY3D_DESCRIPTOR twin = descriptor;
  twin.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUDA_ARRAY_MEMORY_REQUIREMENTS size{};
  CUarray array = nullptr;
  CUdevice device = -1;
  if (Real().cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      Real().cuArray3DCreate_v2(&array, &twin) != CUDA_SUCCESS) {
    return ArrayBytes(ShapeOf(descriptor));
  }
  const CUresult told = Real().cuArrayGetMemoryRequirements(&size, array, device);
  Real().cuArrayDestroy(array);
  return told == CUDA_SUCCESS && size.size != 0 ? OwnBytes(size.size)
                                                : ArrayBytes(ShapeOf(descriptor));
}

uint64_t SizeOf(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, unsigned levels) {
  CUDA_ARRAY3D_DESCRIPTOR twin = descriptor;
  twin.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUDA_ARRAY_MEMORY_REQUIREMENTS size{};
  CUmipmappedArray array = nullptr;
  CUdevice device = -1;
  if (Real().cuCtxGetDevice(&device) != CUDA_SUCCESS ||
      Real().cuMipmappedArrayCreate(&array, &twin, levels) != CUDA_SUCCESS) {
    return MipmapBytes(ShapeOf(descriptor), levels);
  }
  const CUresult told = Real().cuMipmappedArrayGetMemoryRequirements(&size, array, device);
  Real().cuMipmappedArrayDestroy(array);
  return told == CUDA_SUCCESS && size.size != 0 ? OwnBytes(size.size)
                                                : MipmapBytes(ShapeOf(descriptor), levels);
}

// The descriptors of two dimensions and of the first generation hold less.
template <typename Descriptor>
CUDA_ARRAY3D_DESCRIPTOR Widened(const Descriptor& flat) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = flat.Width;
  descriptor.Height = flat.Height;
  descriptor.Format = flat.Format;
  descriptor.NumChannels = flat.NumChannels;
  return descriptor;
}

template <typename Handle>
uint64_t NumberOf(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

template <typename Call>
CUresult CreateArray(CUarray* array, uint64_t size, Call call) {
  return ChargedAllocation(
      Self().devices.CurrentGpu(), size, call, [&] { return size; },
      [&] { return NumberOf(*array); }, [&] { Real().cuArrayDestroy(*array); });
}

}  // namespace

CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  const auto call = [&] { return Real().cuArrayCreate_v2(array, descriptor); };
  const EntryGuard guard;
  if (!guard.active() || array == nullptr || descriptor == nullptr) return call();
  return CreateArray(array, SizeOf(Widened(*descriptor)), call);
}

CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  const auto call = [&] { return Real().cuArray3DCreate_v2(array, descriptor); };
  const EntryGuard guard;
  if (!guard.active() || array == nullptr || descriptor == nullptr ||
      (descriptor->Flags & kWithoutMemory) != 0) {
    return call();
  }
  return CreateArray(array, SizeOf(*descriptor), call);
}

CUresult cuArrayDestroy(CUarray array) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuArrayDestroy(array);
  const CUresult result =
      ChargedFree(NumberOf(array), [&] { return Real().cuArrayDestroy(array); });
  if (result == CUDA_SUCCESS) Self().physical.OnResourceGone(NumberOf(array));
  return result;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                unsigned int levels) {
  const auto call = [&] { return Real().cuMipmappedArrayCreate(array, descriptor, levels); };
  const EntryGuard guard;
  if (!guard.active() || array == nullptr || descriptor == nullptr ||
      (descriptor->Flags & kWithoutMemory) != 0) {
    return call();
  }
  const uint64_t size = SizeOf(*descriptor, levels);
  return ChargedAllocation(
      Self().devices.CurrentGpu(), size, call, [&] { return size; },
      [&] { return NumberOf(*array); }, [&] { Real().cuMipmappedArrayDestroy(*array); });
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  const EntryGuard guard;
  if (!guard.active()) return Real().cuMipmappedArrayDestroy(array);
  const CUresult result =
      ChargedFree(NumberOf(array), [&] { return Real().cuMipmappedArrayDestroy(array); });
  if (result == CUDA_SUCCESS) Self().physical.OnResourceGone(NumberOf(array));
  return result;
}

// The first generation: descriptors of 32 bits.
CUresult cuArrayCreate(CUarray* array, const CUDA_ARRAY_DESCRIPTOR_v1* descriptor) {
  const auto call = [&] { return Real().cuArrayCreate(array, descriptor); };
  const EntryGuard guard;
  if (!guard.active() || array == nullptr || descriptor == nullptr) return call();
  return CreateArray(array, SizeOf(Widened(*descriptor)), call);
}

CUresult cuArray3DCreate(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor) {
  const auto call = [&] { return Real().cuArray3DCreate(array, descriptor); };
  const EntryGuard guard;
  if (!guard.active() || array == nullptr || descriptor == nullptr ||
      (descriptor->Flags & kWithoutMemory) != 0) {
    return call();
  }
  CUDA_ARRAY3D_DESCRIPTOR wide = Widened(*descriptor);
  wide.Depth = descriptor->Depth;
  wide.Flags = descriptor->Flags;
  return CreateArray(array, SizeOf(wide), call);
}
