// Texture and surface objects: what they are made of is kept and given back. Kernels, which would
// read through them, do not run.
#include "sim/cuda/array.h"
#include "sim/cuda/memory.h"

using krux::sim::Array;
using krux::sim::Checked;
using krux::sim::MipmappedArray;

namespace {

struct Texture : krux::sim::Tagged {
  static constexpr uint32_t kTag = 0x54455854;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
};

struct Surface : krux::sim::Tagged {
  static constexpr uint32_t kTag = 0x53555246;
  CUDA_RESOURCE_DESC resource{};
};

bool IsThere(CUdeviceptr address) {
  constexpr CUdeviceptr kAlignment = 512;
  krux::sim::Allocation ignored;
  return address % kAlignment == 0 && krux::sim::FindAllocation(address, &ignored);
}

bool IsResource(const CUDA_RESOURCE_DESC& resource) {
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      return Checked<Array>(resource.res.array.hArray) != nullptr;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      return Checked<MipmappedArray>(resource.res.mipmap.hMipmappedArray) != nullptr;
    case CU_RESOURCE_TYPE_LINEAR:
      return IsThere(resource.res.linear.devPtr);
    case CU_RESOURCE_TYPE_PITCH2D:
      return IsThere(resource.res.pitch2D.devPtr);
    default:
      return false;
  }
}

template <typename T>
CUresult Answer(CUtexObject handle, T Texture::* member, T* out) {
  KRUX_SIM_READY();
  const Texture* texture = Checked<Texture>(handle);
  if (texture == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = texture->*member;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult CUDAAPI cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                                   const CUDA_TEXTURE_DESC* texture,
                                   const CUDA_RESOURCE_VIEW_DESC* view) {
  KRUX_SIM_CONTEXT(context);
  if (context == nullptr || out == nullptr || resource == nullptr || texture == nullptr ||
      !IsResource(*resource)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* made = krux::sim::Make<Texture>();
  made->resource = *resource;
  made->texture = *texture;
  if (view != nullptr) made->view = *view;
  *out = reinterpret_cast<CUtexObject>(made);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexObjectDestroy(CUtexObject handle) {
  KRUX_SIM_READY();
  Texture* texture = Checked<Texture>(handle);
  if (texture == nullptr) return CUDA_ERROR_INVALID_VALUE;
  krux::sim::Bury(texture);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  return Answer(handle, &Texture::resource, out);
}
CUresult CUDAAPI cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  return Answer(handle, &Texture::texture, out);
}
CUresult CUDAAPI cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  return Answer(handle, &Texture::view, out);
}

CUresult CUDAAPI cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  KRUX_SIM_CONTEXT(context);
  if (context == nullptr || out == nullptr || resource == nullptr ||
      resource->resType != CU_RESOURCE_TYPE_ARRAY || !IsResource(*resource)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* made = krux::sim::Make<Surface>();
  made->resource = *resource;
  *out = reinterpret_cast<CUsurfObject>(made);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuSurfObjectDestroy(CUsurfObject handle) {
  KRUX_SIM_READY();
  Surface* surface = Checked<Surface>(handle);
  if (surface == nullptr) return CUDA_ERROR_INVALID_VALUE;
  krux::sim::Bury(surface);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  KRUX_SIM_READY();
  const Surface* surface = Checked<Surface>(handle);
  if (surface == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = surface->resource;
  return CUDA_SUCCESS;
}
