#include "bench/memory/tenant/families.h"

#include <cstdio>

namespace krux::bench {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

CUresult Linear(uint64_t bytes) {
  CUdeviceptr address = 0;
  return cuMemAlloc(&address, bytes);
}

CUresult Pitch(uint64_t bytes) {
  CUdeviceptr address = 0;
  size_t pitch = 0;
  return cuMemAllocPitch(&address, &pitch, kMiB, bytes / kMiB, 4);
}

CUresult Managed(uint64_t bytes) {
  CUdeviceptr address = 0;
  const CUresult result = cuMemAllocManaged(&address, bytes, CU_MEM_ATTACH_GLOBAL);
  if (result != CUDA_SUCCESS) return result;
  const CUresult touched = cuMemsetD8(address, 1, bytes);
  return touched == CUDA_SUCCESS ? cuCtxSynchronize() : touched;
}

// In the room of one block for each two: the second is taken before the first is freed.
CUresult ManagedAndFreed(uint64_t bytes) {
  CUdeviceptr first = 0;
  CUresult result = cuMemAllocManaged(&first, bytes, CU_MEM_ATTACH_GLOBAL);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemsetD8(first, 1, bytes);
  if (result == CUDA_SUCCESS) result = Managed(bytes);
  const CUresult freed = cuMemFree(first);
  return result == CUDA_SUCCESS ? freed : result;
}

CUresult Async(uint64_t bytes) {
  CUdeviceptr address = 0;
  return cuMemAllocAsync(&address, bytes, nullptr);
}

CUresult FromPool(uint64_t bytes, CUmemAllocationType type, CUmemoryPool* pool) {
  if (*pool == nullptr) {
    CUmemPoolProps properties{};
    properties.allocType = type;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (const CUresult made = cuMemPoolCreate(pool, &properties); made != CUDA_SUCCESS) return made;
  }
  CUdeviceptr address = 0;
  return cuMemAllocFromPoolAsync(&address, bytes, *pool, nullptr);
}

CUresult OwnPool(uint64_t bytes) {
  static CUmemoryPool pool;
  return FromPool(bytes, CU_MEM_ALLOCATION_TYPE_PINNED, &pool);
}

CUresult ManagedPool(uint64_t bytes) {
  static CUmemoryPool pool;
  return FromPool(bytes, CU_MEM_ALLOCATION_TYPE_MANAGED, &pool);
}

CUmemAllocationProp OnDevice() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

// Mapped, and released: the mapping alone keeps the memory.
CUresult Virtual(uint64_t bytes) {
  const CUmemAllocationProp properties = OnDevice();
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = cuMemCreate(&handle, bytes, &properties, 0);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr address = 0;
  result = cuMemAddressReserve(&address, bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) result = cuMemMap(address, bytes, 0, handle, 0);
  cuMemRelease(handle);
  return result;
}

// 16 bytes an element, 1024 in a row: 16 KiB a row without padding.
CUDA_ARRAY3D_DESCRIPTOR Sheet(uint64_t bytes) {
  CUDA_ARRAY3D_DESCRIPTOR sheet{};
  sheet.Width = 1024;
  sheet.Height = bytes / (16 * 1024);
  sheet.Format = CU_AD_FORMAT_FLOAT;
  sheet.NumChannels = 4;
  return sheet;
}

CUresult Array(uint64_t bytes) {
  const CUDA_ARRAY3D_DESCRIPTOR sheet = Sheet(bytes);
  CUarray array = nullptr;
  return cuArray3DCreate(&array, &sheet);
}

CUresult Mipmap(uint64_t bytes) {
  const CUDA_ARRAY3D_DESCRIPTOR sheet = Sheet(bytes);
  CUmipmappedArray array = nullptr;
  return cuMipmappedArrayCreate(&array, &sheet, 1);
}

// A graph whose memory stays after its launch.
CUresult Graph(uint64_t bytes) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  parameters.bytesize = bytes;
  CUresult result = cuGraphCreate(&graph, 0);
  if (result == CUDA_SUCCESS) {
    result = cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters);
  }
  if (result == CUDA_SUCCESS) result = cuGraphInstantiateWithFlags(&exec, graph, 0);
  if (result == CUDA_SUCCESS) result = cuGraphLaunch(exec, nullptr);
  return result == CUDA_SUCCESS ? cuCtxSynchronize() : result;
}

// An allocation in a capture, launched: the same by another door.
CUresult Captured(uint64_t bytes) {
  static CUstream stream;
  if (stream == nullptr) {
    const CUresult made = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (made != CUDA_SUCCESS) return made;
  }
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr address = 0;
  CUresult result = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemAllocAsync(&address, bytes, stream);
  const CUresult ended = cuStreamEndCapture(stream, &graph);
  if (result == CUDA_SUCCESS) result = ended;
  if (result == CUDA_SUCCESS) result = cuGraphInstantiateWithFlags(&exec, graph, 0);
  if (result == CUDA_SUCCESS) result = cuGraphLaunch(exec, stream);
  return result == CUDA_SUCCESS ? cuStreamSynchronize(stream) : result;
}

CUresult Module(uint64_t bytes) {
  char text[512];
  snprintf(text, sizeof text,
           ".version 7.0\n.target sm_80\n.address_size 64\n"
           ".visible .global .align 16 .b8 variable[%llu];\n"
           ".visible .entry nothing(.param .u64 out)\n{\n ret;\n}\n",
           static_cast<unsigned long long>(bytes));
  CUmodule module = nullptr;
  return cuModuleLoadData(&module, text);
}

// Memory for the tiles of a sparse array, mapped into one and released.
CUresult Sparse(uint64_t bytes) {
  CUmemAllocationProp properties = OnDevice();
  properties.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = cuMemCreate(&handle, bytes, &properties, 0);
  if (result != CUDA_SUCCESS) return result;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = shape.Height = 2048;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = CUDA_ARRAY3D_SPARSE;
  CUarray array = nullptr;
  CUDA_ARRAY_SPARSE_PROPERTIES tiles{};
  result = cuArray3DCreate(&array, &shape);
  if (result == CUDA_SUCCESS) result = cuArrayGetSparseProperties(&tiles, array);
  if (result == CUDA_SUCCESS) {
    CUarrayMapInfo info{};
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
    info.subresource.sparseLevel.extentWidth = tiles.tileExtent.width;
    info.subresource.sparseLevel.extentHeight = tiles.tileExtent.height;
    info.subresource.sparseLevel.extentDepth = 1;
    info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    info.memHandle.memHandle = handle;
    info.deviceBitMask = 1;
    result = cuMemMapArrayAsync(&info, 1, nullptr);
  }
  if (result == CUDA_SUCCESS) result = cuCtxSynchronize();
  cuMemRelease(handle);
  return result;
}

}  // namespace

CUresult LaunchWithLocalMemory(uint64_t bytes) {
  char text[1024];
  snprintf(text, sizeof text,
           ".version 7.0\n.target sm_80\n.address_size 64\n"
           ".visible .entry local_memory(.param .u64 out)\n{\n"
           " .local .align 16 .b8 stack[%llu];\n .reg .b64 %%r<6>;\n .reg .b32 %%a<4>;\n"
           " ld.param.u64 %%r1, [out];\n cvta.to.global.u64 %%r2, %%r1;\n"
           " ld.global.u32 %%a1, [%%r2];\n mov.u64 %%r3, stack;\n cvt.u64.u32 %%r4, %%a1;\n"
           " add.u64 %%r3, %%r3, %%r4;\n st.local.u32 [%%r3], %%a1;\n"
           " ld.local.u32 %%a2, [%%r3+4];\n st.global.u32 [%%r2], %%a2;\n ret;\n}\n",
           static_cast<unsigned long long>(bytes));
  static CUdeviceptr out;
  if (out == 0) {
    CUresult result = cuMemAlloc(&out, 4096);
    if (result == CUDA_SUCCESS) result = cuMemsetD8(out, 0, 4096);
    if (result != CUDA_SUCCESS) return result;
  }
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUresult result = cuModuleLoadData(&module, text);
  if (result == CUDA_SUCCESS) result = cuModuleGetFunction(&kernel, module, "local_memory");
  void* parameters[] = {&out};
  if (result == CUDA_SUCCESS) {
    result = cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
  }
  return result == CUDA_SUCCESS ? cuCtxSynchronize() : result;
}

const std::vector<Family>& Families() {
  static const std::vector<Family> kFamilies = {
      {"alloc", {64 * kMiB, 2 * kMiB}, Linear},
      {"alloc-small", {kMiB / 2}, Linear},
      {"pitch", {64 * kMiB, 2 * kMiB}, Pitch},
      {"managed", {64 * kMiB, 2 * kMiB}, Managed},
      {"managed-freed", {64 * kMiB, 2 * kMiB}, ManagedAndFreed},
      {"async", {64 * kMiB, 32 * kMiB}, Async},
      {"pool", {64 * kMiB, 32 * kMiB}, OwnPool},
      {"managed-pool", {64 * kMiB, 32 * kMiB}, ManagedPool},
      {"virtual", {64 * kMiB, 2 * kMiB}, Virtual},
      {"array", {64 * kMiB, 2 * kMiB}, Array},
      {"mipmap", {64 * kMiB, 2 * kMiB}, Mipmap},
      {"sparse", {64 * kMiB, 2 * kMiB}, Sparse},
      {"graph", {64 * kMiB, 32 * kMiB}, Graph},
      {"captured", {64 * kMiB, 32 * kMiB}, Captured},
      {"module", {64 * kMiB, 2 * kMiB}, Module},
  };
  return kFamilies;
}

const Family* FindFamily(const std::string& name) {
  for (const Family& family : Families()) {
    if (name == family.name) return &family;
  }
  return nullptr;
}

}  // namespace krux::bench
