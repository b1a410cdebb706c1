// Arrays, mipmapped and sparse ones; texture and surface objects.
#include <string>
#include <vector>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

CUDA_ARRAY3D_DESCRIPTOR Shape(size_t width, size_t height, size_t depth, unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = width;
  shape.Height = height;
  shape.Depth = depth;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = flags;
  return shape;
}

// Creates and destroys; what the card's free memory says.
void Create(Answer& out, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  CUarray array = nullptr;
  const auto before = static_cast<long long>(FreeBytes());
  const CUresult result = CU(cuArray3DCreate, &array, &shape);
  out("create", result);
  if (result != CUDA_SUCCESS) return;
  out("taken-mib", Mib(before - static_cast<long long>(FreeBytes())));
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  out("requirements", CU(cuArrayGetMemoryRequirements, &needs, array, 0));
  out("size", needs.size);
  out("alignment", needs.alignment);
  out("destroy", CU(cuArrayDestroy, array));
  out("left-mib", Mib(before - static_cast<long long>(FreeBytes())));
}

void Mipmap(Answer& out, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  CUmipmappedArray array = nullptr;
  const auto before = static_cast<long long>(FreeBytes());
  const CUresult result = CU(cuMipmappedArrayCreate, &array, &shape, levels);
  out("create", result);
  if (result != CUDA_SUCCESS) return;
  out("taken-mib", Mib(before - static_cast<long long>(FreeBytes())));
  unsigned count = 0;
  CUarray level = nullptr;
  while (CU(cuMipmappedArrayGetLevel, &level, array, count) == CUDA_SUCCESS) ++count;
  out("levels", count);
  out("past-last", CU(cuMipmappedArrayGetLevel, &level, array, count));
  out("destroy", CU(cuMipmappedArrayDestroy, array));
}

void Sparse(Answer& out, const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  CUarray array = nullptr;
  const auto before = static_cast<long long>(FreeBytes());
  const CUresult result = CU(cuArray3DCreate, &array, &shape);
  out("create", result);
  if (result != CUDA_SUCCESS) return;
  out("taken-mib", Mib(before - static_cast<long long>(FreeBytes())));
  CUDA_ARRAY_SPARSE_PROPERTIES sparse{};
  out("properties", CU(cuArrayGetSparseProperties, &sparse, array));
  out("tile", std::to_string(sparse.tileExtent.width) + "x" +
                  std::to_string(sparse.tileExtent.height) + "x" +
                  std::to_string(sparse.tileExtent.depth));
  out("tail-level", sparse.miptailFirstLevel);
  out("tail-size", sparse.miptailSize);
  CU(cuArrayDestroy, array);
}

const Case kCases[] = {
    {"array.create.1d", kContext, [](Answer& out) { Create(out, Shape(1000, 0, 0)); }},
    {"array.create.2d", kContext, [](Answer& out) { Create(out, Shape(1024, 1024, 0)); }},
    {"array.create.2d-odd", kContext, [](Answer& out) { Create(out, Shape(1000, 777, 0)); }},
    {"array.create.2d-small", kContext, [](Answer& out) { Create(out, Shape(16, 16, 0)); }},
    {"array.create.3d", kContext, [](Answer& out) { Create(out, Shape(128, 128, 128)); }},
    {"array.create.3d-odd", kContext, [](Answer& out) { Create(out, Shape(100, 50, 20)); }},
    {"array.create.layered", kContext,
     [](Answer& out) { Create(out, Shape(64, 64, 8, CUDA_ARRAY3D_LAYERED)); }},
    {"array.create.surface", kContext,
     [](Answer& out) { Create(out, Shape(512, 512, 0, CUDA_ARRAY3D_SURFACE_LDST)); }},
    {"array.create.cubemap", kContext,
     [](Answer& out) { Create(out, Shape(64, 64, 6, CUDA_ARRAY3D_CUBEMAP)); }},
    {"array.create.cubemap-bad", kContext,
     [](Answer& out) { Create(out, Shape(64, 32, 6, CUDA_ARRAY3D_CUBEMAP)); }},
    {"array.create.big", kContext, [](Answer& out) { Create(out, Shape(16384, 16384, 0)); }},
    {"array.create.too-wide", kContext,
     [](Answer& out) { Create(out, Shape(size_t{1} << 20, 4, 0)); }},
    {"array.create.no-width", kContext, [](Answer& out) { Create(out, Shape(0, 4, 0)); }},
    {"array.create.no-height", kContext, [](Answer& out) { Create(out, Shape(4, 0, 4)); }},
    {"array.create.bad-flags", kContext,
     [](Answer& out) { Create(out, Shape(64, 64, 0, 0x10000)); }},
    {"array.create.bad-format", kContext,
     [](Answer& out) {
       CUDA_ARRAY3D_DESCRIPTOR shape = Shape(64, 64, 0);
       shape.Format = Odd<CUarray_format>(0x7f);
       Create(out, shape);
     }},
    {"array.create.channels", kContext,
     [](Answer& out) {
       for (const unsigned channels : {0U, 2U, 3U, 4U, 5U}) {
         CUDA_ARRAY3D_DESCRIPTOR shape = Shape(64, 64, 0);
         shape.NumChannels = channels;
         CUarray array = nullptr;
         out(std::to_string(channels), CU(cuArray3DCreate, &array, &shape));
         if (array != nullptr) CU(cuArrayDestroy, array);
       }
     }},
    {"array.create.null", kContext,
     [](Answer& out) {
       const CUDA_ARRAY3D_DESCRIPTOR shape = Shape(64, 64, 0);
       CUarray array = nullptr;
       out("out", CU(cuArray3DCreate, nullptr, &shape));
       out("shape", CU(cuArray3DCreate, &array, nullptr));
       out("2d", CU(cuArrayCreate, &array, nullptr));
     }},
    {"array.descriptor", kContext,
     [](Answer& out) {
       CUDA_ARRAY_DESCRIPTOR shape{};
       shape.Width = 30;
       shape.Height = 20;
       shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
       shape.NumChannels = 4;
       CUarray array = nullptr;
       out("create", CU(cuArrayCreate, &array, &shape));
       CUDA_ARRAY3D_DESCRIPTOR seen{};
       out("get", CU(cuArray3DGetDescriptor, &seen, array));
       out("width", seen.Width);
       out("height", seen.Height);
       out("depth", seen.Depth);
       out("format", static_cast<int>(seen.Format));
       out("flags", seen.Flags);
       out("null", CU(cuArray3DGetDescriptor, nullptr, array));
       CU(cuArrayDestroy, array);
     }},
    {"array.copy", kContext,
     [](Answer& out) {
       CUDA_ARRAY_DESCRIPTOR shape{};
       shape.Width = 16;
       shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
       shape.NumChannels = 1;
       CUarray array = nullptr;
       CU(cuArrayCreate, &array, &shape);
       const std::vector<unsigned char> sent = {1, 2, 3, 4};
       std::vector<unsigned char> got(4);
       out("to", CU(cuMemcpyHtoA, array, 4, sent.data(), 4));
       out("from", CU(cuMemcpyAtoH, got.data(), array, 5, 4));
       out("first", static_cast<int>(got[0]));
       out("past-end", CU(cuMemcpyHtoA, array, 14, sent.data(), 4));
       out("null", CU(cuMemcpyHtoA, nullptr, 0, sent.data(), 4));
       CU(cuArrayDestroy, array);
     }},
    {"array.destroy.null", kContext, [](Answer& out) { out(CU(cuArrayDestroy, nullptr)); }},
    {"array.plane", kContext,
     [](Answer& out) {
       const CUDA_ARRAY3D_DESCRIPTOR shape = Shape(64, 64, 0);
       CUarray array = nullptr;
       CU(cuArray3DCreate, &array, &shape);
       CUarray plane = nullptr;
       out(CU(cuArrayGetPlane, &plane, array, 0U));
       CU(cuArrayDestroy, array);
     }},
    {"mipmap.all-levels", kContext, [](Answer& out) { Mipmap(out, Shape(1024, 1024, 0), 11); }},
    {"mipmap.one-level", kContext, [](Answer& out) { Mipmap(out, Shape(1024, 1024, 0), 1); }},
    {"mipmap.too-many-levels", kContext, [](Answer& out) { Mipmap(out, Shape(64, 64, 0), 40); }},
    {"mipmap.no-level", kContext, [](Answer& out) { Mipmap(out, Shape(64, 64, 0), 0); }},
    {"mipmap.3d", kContext, [](Answer& out) { Mipmap(out, Shape(256, 256, 64), 5); }},
    {"mipmap.small", kContext, [](Answer& out) { Mipmap(out, Shape(16, 16, 0), 5); }},
    {"sparse.2d", kContext,
     [](Answer& out) { Sparse(out, Shape(4096, 4096, 0, CUDA_ARRAY3D_SPARSE)); }},
    {"sparse.3d", kContext,
     [](Answer& out) { Sparse(out, Shape(256, 256, 256, CUDA_ARRAY3D_SPARSE)); }},
    {"sparse.deferred", kContext,
     [](Answer& out) { Sparse(out, Shape(4096, 4096, 0, CUDA_ARRAY3D_DEFERRED_MAPPING)); }},
    {"sparse.of-plain", kContext, [](Answer& out) { Sparse(out, Shape(64, 64, 0)); }},
    {"texture.object.linear", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 4096);
       CUDA_RESOURCE_DESC resource{};
       resource.resType = CU_RESOURCE_TYPE_LINEAR;
       resource.res.linear.devPtr = pointer;
       resource.res.linear.format = CU_AD_FORMAT_FLOAT;
       resource.res.linear.numChannels = 1;
       resource.res.linear.sizeInBytes = 4096;
       CUDA_TEXTURE_DESC texture{};
       CUtexObject object = 0;
       out("create", CU(cuTexObjectCreate, &object, &resource, &texture, nullptr));
       CUDA_RESOURCE_DESC seen{};
       out("get", CU(cuTexObjectGetResourceDesc, &seen, object));
       out("same", seen.res.linear.devPtr == pointer);
       out("destroy", CU(cuTexObjectDestroy, object));
       resource.res.linear.devPtr = pointer + 1;
       out("unaligned", CU(cuTexObjectCreate, &object, &resource, &texture, nullptr));
       out("null", CU(cuTexObjectCreate, nullptr, &resource, &texture, nullptr));
       CU(cuMemFree, pointer);
     }},
    {"texture.object.array", kContext,
     [](Answer& out) {
       const CUDA_ARRAY3D_DESCRIPTOR shape = Shape(64, 64, 0);
       CUDA_RESOURCE_DESC resource{};
       resource.resType = CU_RESOURCE_TYPE_ARRAY;
       CU(cuArray3DCreate, &resource.res.array.hArray, &shape);
       CUDA_TEXTURE_DESC texture{};
       CUtexObject object = 0;
       out("create", CU(cuTexObjectCreate, &object, &resource, &texture, nullptr));
       out("destroy", CU(cuTexObjectDestroy, object));
       CUsurfObject surface = 0;
       out("surface-plain", CU(cuSurfObjectCreate, &surface, &resource));
       CU(cuArrayDestroy, resource.res.array.hArray);
     }},
    {"texture.surface", kContext,
     [](Answer& out) {
       const CUDA_ARRAY3D_DESCRIPTOR shape = Shape(64, 64, 0, CUDA_ARRAY3D_SURFACE_LDST);
       CUDA_RESOURCE_DESC resource{};
       resource.resType = CU_RESOURCE_TYPE_ARRAY;
       CU(cuArray3DCreate, &resource.res.array.hArray, &shape);
       CUsurfObject surface = 0;
       out("create", CU(cuSurfObjectCreate, &surface, &resource));
       out("destroy", CU(cuSurfObjectDestroy, surface));
       CU(cuArrayDestroy, resource.res.array.hArray);
     }},
};

}  // namespace

std::span<const Case> ArrayCases() { return kCases; }

}  // namespace krux::sim::conformance
