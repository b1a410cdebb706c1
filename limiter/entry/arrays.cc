// Arrays and mipmapped arrays, by an upper bound of their size (sizes.h). Sparse ones and those
// with deferred mapping have no memory of their own: what is mapped into them is charged where it
// is made.
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

template <typename Descriptor>
uint64_t ElementBytes(const Descriptor& descriptor) {
  return BytesOfFormat(descriptor.Format) *
         (descriptor.NumChannels == 0 ? 1 : descriptor.NumChannels);
}

template <typename Descriptor>
ArrayShape ShapeOf(const Descriptor& descriptor) {
  return {descriptor.Width, descriptor.Height, descriptor.Depth, ElementBytes(descriptor)};
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
  const uint64_t size =
      ArrayBytes({descriptor->Width, descriptor->Height, 0, ElementBytes(*descriptor)});
  return CreateArray(array, size, call);
}

CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  const auto call = [&] { return Real().cuArray3DCreate_v2(array, descriptor); };
  const EntryGuard guard;
  if (!guard.active() || array == nullptr || descriptor == nullptr ||
      (descriptor->Flags & kWithoutMemory) != 0) {
    return call();
  }
  const uint64_t size = ArrayBytes(ShapeOf(*descriptor));
  return CreateArray(array, size, call);
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
  const uint64_t size = MipmapBytes(ShapeOf(*descriptor), levels);
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
  const uint64_t size =
      ArrayBytes({descriptor->Width, descriptor->Height, 0, ElementBytes(*descriptor)});
  return CreateArray(array, size, call);
}

CUresult cuArray3DCreate(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR_v1* descriptor) {
  const auto call = [&] { return Real().cuArray3DCreate(array, descriptor); };
  const EntryGuard guard;
  if (!guard.active() || array == nullptr || descriptor == nullptr ||
      (descriptor->Flags & kWithoutMemory) != 0) {
    return call();
  }
  return CreateArray(array, ArrayBytes(ShapeOf(*descriptor)), call);
}
