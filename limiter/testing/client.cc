// A CUDA driver program for the tests: does what its arguments say, one after the other, and prints
// one line for each. It knows nothing of the limiter.
//
//   init | uuid | ctx | total | info | alloc:BYTES | free:INDEX | fill:BYTES | pitch:W:H |
//   managed:BYTES async:BYTES | freeasync:INDEX | sync | pool:BYTES | vmm:BYTES | release:INDEX |
//   array:W:H launch:ITERATIONS:COUNT | rate:ITERATIONS:MILLISECONDS |
//   gap:ITERATIONS:MICROSECONDS:MILLISECONDS door:NAME | fork:BYTES | wait | streams:N
//   graph:ITERATIONS:KERNELS:MILLISECONDS | nvml | destroy
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "limiter/testing/client_memory.h"
#include "limiter/testing/client_sharing.h"

namespace {

constexpr char kPtx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry fma_loop(.param .u64 out, .param .u32 iters)\n{\n ret;\n}\n";

std::vector<CUdeviceptr> pointers;
std::vector<CUmemGenericAllocationHandle> handles;
CUcontext context;
CUmodule module;
CUfunction kernel;
CUdeviceptr out_buffer;
CUmemoryPool own_pool;

double Now() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<double>(ts.tv_sec) + 1e-9 * static_cast<double>(ts.tv_nsec);
}

void Say(const char* what, CUresult result) {
  printf("%s %d\n", what, static_cast<int>(result));
  fflush(stdout);
}

void Keep(const char* what, CUresult result, const CUdeviceptr& pointer) {
  if (result == CUDA_SUCCESS) pointers.push_back(pointer);
  Say(what, result);
}

CUresult Launch(unsigned iterations, CUstream stream) {
  if (kernel == nullptr) {
    cuModuleLoadData(&module, kPtx);
    cuModuleGetFunction(&kernel, module, "fma_loop");
    cuMemAlloc(&out_buffer, 4096);
  }
  void* parameters[] = {&out_buffer, &iterations};
  return cuLaunchKernel(kernel, 132 * 8, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr);
}

size_t Fill(size_t bytes) {
  size_t total = 0;
  CUdeviceptr pointer = 0;
  CUresult result;
  while ((result = cuMemAlloc(&pointer, bytes)) == CUDA_SUCCESS) {
    pointers.push_back(pointer);
    total += bytes;
  }
  return result == CUDA_ERROR_OUT_OF_MEMORY ? total : 0;
}

std::string DriverPath() {
  Dl_info info{};
  dladdr(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuDriverGetVersion"), &info);
  return info.dli_fname;
}

using Alloc = CUresult (*)(CUdeviceptr*, size_t);

// cuMemAlloc as programs find it; nullptr when this way does not exist.
Alloc FindAlloc(const std::string& door) {
  void* function = nullptr;
  if (door == "linked") return &cuMemAlloc;
  if (door == "dlsym") {
    function = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
  } else if (door == "default") {
    function = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
  } else if (door == "next") {
    function = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
  } else if (door == "deepbind") {
    function = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND), "cuMemAlloc_v2");
  } else if (door == "dlsym-of-libc") {
    using Dlsym = void* (*)(void*, const char*);
    const auto lookup = reinterpret_cast<Dlsym>(dlsym(dlopen("libc.so.6", RTLD_NOW), "dlsym"));
    function = lookup(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
  } else if (door == "path") {
    // By its own path, as programs do that search a compatibility folder.
    function = dlsym(dlopen(DriverPath().c_str(), RTLD_NOW), "cuMemAlloc_v2");
  } else if (door == "gpa1") {
    using Lookup = CUresult (*)(const char*, void**, int, cuuint64_t);
    void* handle = dlopen("libcuda.so.1", RTLD_NOW);
    const auto lookup = reinterpret_cast<Lookup>(dlsym(handle, "cuGetProcAddress"));
    if (lookup("cuMemAlloc", &function, 11030, 0) != CUDA_SUCCESS) return nullptr;
  } else if (door == "gpa2") {
    if (cuGetProcAddress("cuMemAlloc", &function, 12000, 0, nullptr) != CUDA_SUCCESS)
      return nullptr;
  } else if (door == "self") {
    // cuGetProcAddress found by itself, as the CUDA runtime does.
    using Lookup =
        CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
    void* lookup = nullptr;
    if (cuGetProcAddress("cuGetProcAddress", &lookup, 12000, 0, nullptr) != CUDA_SUCCESS ||
        reinterpret_cast<Lookup>(lookup)("cuMemAlloc", &function, 12000, 0, nullptr) !=
            CUDA_SUCCESS) {
      return nullptr;
    }
  }
  return reinterpret_cast<Alloc>(function);
}

struct Name {
  const char* name;
  int since;
};
constexpr Name kHandled[] = {
#define KRUX_HOOK(name, symbol_class, since) {#name, since},
#include "limiter/driver_api.inc"
#undef KRUX_HOOK
};

// For each handled name that the driver has: the two lookups must agree.
void LookUpAll() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  int same = 0, different = 0;
  for (const Name& handled : kHandled) {
    std::string base = handled.name;
    cuuint64_t flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    for (const char* suffix : {"_ptsz", "_ptds"}) {
      if (base.size() > 5 && base.substr(base.size() - 5) == suffix) {
        base.resize(base.size() - 5);
        flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
      }
    }
    const size_t version = base.find("_v");
    if (version != std::string::npos) base.resize(version);
    void* found = nullptr;
    void* by_name = dlsym(driver, handled.name);
    if (cuGetProcAddress(base.c_str(), &found, handled.since, flags, nullptr) != CUDA_SUCCESS) {
      continue;
    }
    ++(found == by_name ? same : different);
    if (found != by_name) printf("differs: %s\n", handled.name);
  }
  printf("lookup same %d different %d\n", same, different);
  fflush(stdout);
}

void Vmm(size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = cuMemCreate(&handle, bytes, &properties, 0);
  if (result == CUDA_SUCCESS) handles.push_back(handle);
  Say("vmm", result);
}

void Pool(size_t bytes) {
  if (own_pool == nullptr) {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    cuMemPoolCreate(&own_pool, &properties);
  }
  CUdeviceptr pointer = 0;
  Keep("pool", cuMemAllocFromPoolAsync(&pointer, bytes, own_pool, nullptr), pointer);
}

// Launches as fast as it can for a while, then waits: kernels a second.
void Rate(unsigned iterations, double seconds) {
  Launch(iterations, nullptr);
  cuStreamSynchronize(nullptr);
  const double start = Now();
  long count = 0;
  CUresult result = CUDA_SUCCESS;
  while (Now() - start < seconds && result == CUDA_SUCCESS) {
    result = Launch(iterations, nullptr);
    ++count;
  }
  cuStreamSynchronize(nullptr);
  printf("rate %.1f %d\n", static_cast<double>(count) / (Now() - start), static_cast<int>(result));
  fflush(stdout);
}

// Launch, wait, work on the host for a while, again: loops a second.
void Gap(unsigned iterations, double gap, double seconds) {
  Launch(iterations, nullptr);
  cuStreamSynchronize(nullptr);
  const double start = Now();
  long count = 0;
  for (; Now() - start < seconds; ++count) {
    Launch(iterations, nullptr);
    cuStreamSynchronize(nullptr);
    for (const double until = Now() + gap; Now() < until;) {
    }
  }
  printf("gap %.1f\n", static_cast<double>(count) / (Now() - start));
  fflush(stdout);
}

void ForkAndAllocate(size_t bytes) {
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr pointer = 0;
    const CUresult init = cuInit(0);
    _exit(init != CUDA_SUCCESS && cuMemAlloc(&pointer, bytes) != CUDA_SUCCESS ? 7 : 8);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("fork %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  fflush(stdout);
}

void Nvml() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) {
    printf("nvml absent\n");
    return;
  }
  struct {
    unsigned long long total, free, used;
  } memory{};
  void* device = nullptr;
  reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"))();
  reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"))(
      0, &device);
  const int result = reinterpret_cast<int (*)(void*, void*)>(
      dlsym(library, "nvmlDeviceGetMemoryInfo"))(device, &memory);
  struct {
    unsigned pid;
    unsigned long long used;
    unsigned instances[2];
  } processes[8]{};
  unsigned count = 8;
  reinterpret_cast<int (*)(void*, unsigned*, void*)>(
      dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3"))(device, &count, processes);
  printf("nvml %d %llu %llu processes %u own %d\n", result, memory.total >> 20, memory.used >> 20,
         count, count > 0 && processes[0].pid == static_cast<unsigned>(getpid()));
  fflush(stdout);
}

void Do(const std::string& command, const std::vector<size_t>& n, const std::string& word) {
  CUdeviceptr p = 0;
  CUdevice device = 0;
  size_t a = 0, b = 0;
  if (command == "init") {
    Say("init", cuInit(0));
  } else if (command == "ctx") {
    cuDeviceGet(&device, 0);
    const CUresult result = cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_SUCCESS) cuCtxSetCurrent(context);
    Say("ctx", result);
  } else if (command == "destroy") {
    cuDeviceGet(&device, 0);
    Say("destroy", cuDevicePrimaryCtxRelease(device));
  } else if (command == "uuid") {
    CUuuid uuid{};
    cuDeviceGet(&device, 0);
    cuDeviceGetUuid(&uuid, device);
    printf("uuid ");
    for (const char byte : uuid.bytes) printf("%02x", static_cast<unsigned char>(byte));
    printf("\n");
  } else if (command == "total") {
    cuDeviceGet(&device, 0);
    cuDeviceTotalMem(&a, device);
    printf("total %zu\n", a >> 20);
  } else if (command == "info") {
    const CUresult result = cuMemGetInfo(&a, &b);
    printf("info %d %zu %zu\n", static_cast<int>(result), a >> 20, b >> 20);
  } else if (command == "alloc") {
    Keep("alloc", cuMemAlloc(&p, n[0]), p);
  } else if (command == "free") {
    Say("free", cuMemFree(pointers.at(n[0])));
  } else if (command == "freeall") {
    for (const CUdeviceptr pointer : pointers) cuMemFree(pointer);
    pointers.clear();
    Say("freeall", CUDA_SUCCESS);
  } else if (command == "fill") {
    printf("fill %zu\n", Fill(n[0]) >> 10);
  } else if (command == "pitch") {
    const CUresult result = cuMemAllocPitch(&p, &a, n[0], n[1], 4);
    Keep("pitch", result, p);
  } else if (command == "managed") {
    Keep("managed", cuMemAllocManaged(&p, n[0], CU_MEM_ATTACH_GLOBAL), p);
  } else if (command == "async") {
    Keep("async", cuMemAllocAsync(&p, n[0], nullptr), p);
  } else if (command == "freeasync") {
    Say("freeasync", cuMemFreeAsync(pointers.at(n[0]), nullptr));
  } else if (command == "pool") {
    Pool(n[0]);
  } else if (command == "vmm") {
    Vmm(n[0]);
  } else if (command == "release") {
    Say("release", cuMemRelease(handles.at(n[0])));
  } else if (command == "map") {
    CUdeviceptr address = 0;
    cuMemAddressReserve(&address, n[1], 0, 0, 0);
    pointers.push_back(address);
    Say("map", cuMemMap(address, n[1], 0, handles.at(n[0]), 0));
  } else if (command == "unmap") {
    Say("unmap", cuMemUnmap(pointers.at(n[0]), n[1]));
  } else if (command == "array") {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    shape.Width = n[0];
    shape.Height = n[1];
    shape.Format = CU_AD_FORMAT_FLOAT;
    shape.NumChannels = 1;
    CUarray array = nullptr;
    Say("array", cuArray3DCreate(&array, &shape));
  } else if (command == "sync") {
    Say("sync", cuCtxSynchronize());
  } else if (command == "launch") {
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < n[1] && result == CUDA_SUCCESS; ++i) {
      result = Launch(static_cast<unsigned>(n[0]), nullptr);
    }
    Say("launch", result == CUDA_SUCCESS ? cuStreamSynchronize(nullptr) : result);
  } else if (command == "rate") {
    Rate(static_cast<unsigned>(n[0]), static_cast<double>(n[1]) / 1e3);
  } else if (command == "gap") {
    Gap(static_cast<unsigned>(n[0]), static_cast<double>(n[1]) / 1e6,
        static_cast<double>(n[2]) / 1e3);
  } else if (command == "fork") {
    ForkAndAllocate(n[0]);
  } else if (command == "lookup") {
    LookUpAll();
  } else if (command == "nvml") {
    Nvml();
  } else if (command == "wait") {
    printf("waiting\n");
    fflush(stdout);
    getchar();
  } else if (command == "door") {
    const Alloc alloc = FindAlloc(word);
    Say("door", alloc == nullptr ? CUDA_ERROR_NOT_FOUND : alloc(&p, size_t{1} << 50));
    printf("wrapped %d\n", alloc == &cuMemAlloc);
  } else if (!DoMemory(command, n) && !DoSharing(command, n, word)) {
    printf("unknown %s\n", command.c_str());
  }
  fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i], word;
    std::vector<size_t> numbers;
    size_t colon = text.find(':');
    const std::string command = text.substr(0, colon);
    while (colon != std::string::npos) {
      const size_t next = text.find(':', colon + 1);
      word = text.substr(colon + 1, next == std::string::npos ? next : next - colon - 1);
      numbers.push_back(strtoull(word.c_str(), nullptr, 10));
      colon = next;
    }
    Do(command, numbers, word);
  }
  return 0;
}
