#include "limiter/testing/client_memory.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

#include <map>
#include <random>

namespace {

void Say(const char* what, CUresult result) { printf("%s %d\n", what, static_cast<int>(result)); }

// Live bytes never pass BYTES.
void Cycle(size_t bytes, size_t count) {
  size_t failed = 0;
  for (size_t i = 0; i < count; ++i) {
    CUdeviceptr p = 0;
    if (cuMemAllocAsync(&p, bytes, nullptr) != CUDA_SUCCESS) {
      ++failed;
      continue;
    }
    cuMemFreeAsync(p, nullptr);
    if (i % 3 == 0) cuStreamSynchronize(nullptr);
  }
  printf("cycle failed %zu\n", failed);
}

// Allocations and frees of all kinds in no order, then all freed.
void Random(unsigned seed, size_t count) {
  std::mt19937 random(seed);
  std::map<CUdeviceptr, bool> held;  // address -> from a pool
  size_t errors = 0;
  const auto give_back = [&](std::map<CUdeviceptr, bool>::iterator it) {
    const CUresult result = it->second ? cuMemFreeAsync(it->first, nullptr) : cuMemFree(it->first);
    errors += result != CUDA_SUCCESS ? 1 : 0;
    held.erase(it);
  };
  for (size_t i = 0; i < count; ++i) {
    CUdeviceptr p = 0;
    size_t pitch = 0;
    CUresult result = CUDA_SUCCESS;
    const size_t bytes = size_t{1} << (random() % 24);
    const unsigned kind = random() % 6;
    if (kind == 0) result = cuMemAlloc(&p, bytes);
    if (kind == 1) result = cuMemAllocPitch(&p, &pitch, bytes % 4096 + 1, 64, 4);
    if (kind == 2) result = cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL);
    if (kind == 3) result = cuMemAllocAsync(&p, bytes, nullptr);
    if (kind > 3 && !held.empty()) give_back(held.begin());
    if (p != 0 && result == CUDA_SUCCESS) held[p] = kind == 3;
    errors += result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY ? 1 : 0;
  }
  while (!held.empty()) give_back(held.begin());
  cuCtxSynchronize();
  printf("random errors %zu\n", errors);
}

// As a framework does: asks for too much, is refused, asks for half of it.
void Halve(size_t bytes) {
  CUdeviceptr p = 0;
  CUresult result = cuMemAlloc(&p, bytes);
  printf("halve %d", static_cast<int>(result));
  while (result == CUDA_ERROR_OUT_OF_MEMORY) result = cuMemAlloc(&p, bytes /= 2);
  const char* text = nullptr;
  cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text);
  printf(" then %d of %zu, context %d, text %d\n", static_cast<int>(result), bytes >> 20,
         static_cast<int>(cuMemsetD8(p, 1, bytes)), text != nullptr);
}

void State() {
  CUdevice device = 0;
  unsigned flags = 0;
  int active = -1;
  cuDeviceGet(&device, 0);
  const CUresult set = cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_BLOCKING_SYNC);
  cuDevicePrimaryCtxGetState(device, &flags, &active);
  printf("state active %d set %d flags %u\n", active, static_cast<int>(set), flags);
}

void ManagedPool(size_t bytes) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemoryPool pool = nullptr;
  CUdeviceptr p = 0;
  CUresult result = cuMemPoolCreate(&pool, &properties);
  if (result == CUDA_SUCCESS) result = cuMemAllocFromPoolAsync(&p, bytes, pool, nullptr);
  Say("managedpool", result);
}

CUresult LoadAndLaunch(const char* text) {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUresult result = cuModuleLoadData(&module, text);
  if (result != CUDA_SUCCESS) return result;
  result = cuModuleGetFunction(&kernel, module, "kernel");
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr nothing = 0;
  void* parameters[] = {&nothing};
  return cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
}

void WithText(const char* what, const char* format, size_t bytes) {
  char text[512];
  snprintf(text, sizeof text, format, bytes);
  Say(what, LoadAndLaunch(text));
}

void Graph(size_t bytes, bool captured) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr p = 0;
  CUresult result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (captured && result == CUDA_SUCCESS) {
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    result = cuMemAllocAsync(&p, bytes, stream);
    cuStreamEndCapture(stream, &graph);
  } else if (result == CUDA_SUCCESS) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
    parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    parameters.bytesize = bytes;
    cuGraphCreate(&graph, 0);
    result = cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters);
  }
  if (result == CUDA_SUCCESS) result = cuGraphInstantiateWithFlags(&exec, graph, 0);
  if (result == CUDA_SUCCESS) result = cuGraphLaunch(exec, stream);
  Say(captured ? "captured" : "graph", result);
}

void* Nvml(void** device) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"))();
  reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"))(
      0, device);
  return library;
}

void NvmlTwo() {
  struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
  } memory{40 | 2U << 24, 0, 0, 0, 0}, wrong{7, 0, 0, 0, 0};
  void* device = nullptr;
  void* library = Nvml(&device);
  const auto info =
      reinterpret_cast<int (*)(void*, void*)>(dlsym(library, "nvmlDeviceGetMemoryInfo_v2"));
  const int result = info(device, &memory);
  printf("nvml2 %d total %llu used %llu free %llu sane %d wrong %d\n", result, memory.total >> 20,
         memory.used >> 20, memory.free >> 20, memory.reserved < memory.total,
         info(device, &wrong));
}

void Utilization() {
  struct {
    unsigned gpu, memory;
  } rates{999, 999};
  void* device = nullptr;
  void* library = Nvml(&device);
  const int result = reinterpret_cast<int (*)(void*, void*)>(
      dlsym(library, "nvmlDeviceGetUtilizationRates"))(device, &rates);
  printf("utilization %d %u\n", result, rates.gpu);
}

// What the whole card's engines do, which is not this program's alone: how many were not supported.
void EnginesOfTheCard() {
  void* device = nullptr;
  void* library = Nvml(&device);
  int asked = 0, hidden = 0;
  for (const char* name : {"nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization",
                           "nvmlDeviceGetJpgUtilization", "nvmlDeviceGetOfaUtilization"}) {
    unsigned percent = 0, period = 0;
    const auto ask = reinterpret_cast<int (*)(void*, unsigned*, unsigned*)>(dlsym(library, name));
    ++asked;
    if (ask(device, &percent, &period) == 3) ++hidden;
  }
  printf("engines %d hidden %d\n", asked, hidden);
}

// A copy of the driver in a namespace of its own.
void OtherNamespace() {
  void* handle = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
  const char* why = handle == nullptr ? dlerror() : "";
  printf("dlmopen %d %s\n", handle != nullptr, why == nullptr ? "" : why);
}

}  // namespace

bool DoMemory(const std::string& command, const std::vector<size_t>& n) {
  if (command == "cycle") {
    Cycle(n[0], n[1]);
  } else if (command == "random") {
    Random(static_cast<unsigned>(n[0]), n[1]);
  } else if (command == "halve") {
    Halve(n[0]);
  } else if (command == "state") {
    State();
  } else if (command == "vmmat") {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = static_cast<CUmemLocationType>(n[0]);
    properties.location.id = static_cast<int>(n[1]);
    CUmemGenericAllocationHandle handle = 0;
    Say("vmmat", cuMemCreate(&handle, size_t{2} << 20, &properties, 0));
  } else if (command == "unknownfree") {
    Say("unknownfree", cuMemFree(0x123456789000));
  } else if (command == "managedpool") {
    ManagedPool(n[0]);
  } else if (command == "module") {
    WithText("module",
             ".version 7.0\n.target sm_80\n.address_size 64\n.visible .global .align 16 .b8 "
             "v[%zu];\n.visible .entry kernel(.param .u64 p)\n{\n ret;\n}\n",
             n[0]);
  } else if (command == "local") {
    WithText("local",
             ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry kernel(.param .u64 "
             "p)\n{\n .local .align 16 .b8 s[%zu];\n ret;\n}\n",
             n[0]);
  } else if (command == "stack") {
    Say("stack", cuCtxSetLimit(CU_LIMIT_STACK_SIZE, n[0]));
  } else if (command == "createstreams") {
    CUresult result = CUDA_SUCCESS;
    CUstream stream = nullptr;
    for (size_t i = 0; i < n[0] && result == CUDA_SUCCESS; ++i) {
      result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    }
    Say("createstreams", result);
  } else if (command == "graph" || command == "captured") {
    Graph(n[0], command == "captured");
  } else if (command == "mipmap") {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    shape.Width = n[0];
    shape.Height = n[1];
    shape.Format = CU_AD_FORMAT_FLOAT;
    shape.NumChannels = 4;
    CUmipmappedArray array = nullptr;
    Say("mipmap", cuMipmappedArrayCreate(&array, &shape, static_cast<unsigned>(n[2])));
  } else if (command == "nvml2") {
    NvmlTwo();
  } else if (command == "utilization") {
    Utilization();
  } else if (command == "engines") {
    EnginesOfTheCard();
  } else if (command == "dlmopen") {
    OtherNamespace();
  } else {
    return false;
  }
  fflush(stdout);
  return true;
}
