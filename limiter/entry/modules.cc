// Modules and libraries: their variables are charged before they are loaded, as far as the image
// tells; their code, and what the image does not tell, is settled by the agent after it.
#include "limiter/entry/entry.h"
#include "limiter/memory/image.h"

namespace {

using namespace krux::limiter;

// The agent is asked at most so often for things that it would find by itself within a second.
void SettleSoon(uint32_t gpu) {
  static std::atomic<Ticks> next[krux::kMaxPageGpus];
  const Ticks now = TicksNow();
  Ticks due = next[gpu].load(std::memory_order_relaxed);
  const Ticks pause = Self().limits->tsc_per_second.load(std::memory_order_relaxed) / 20;
  if (now < due || !next[gpu].compare_exchange_strong(due, now + pause)) return;
  Self().link.Send(krux::wire::EventKind::kContextMade, gpu, 0);
}

// `loaded` makes the driver take the memory of the variables now, if it has not.
template <typename Call, typename Loaded>
CUresult Load(const void* image, Call call, Loaded loaded) {
  const EntryGuard guard;
  const uint32_t gpu = guard.active() ? Self().devices.CurrentGpu() : Devices::kNotGranted;
  if (gpu == Devices::kNotGranted) return call();
  Process& self = Self();
  const uint64_t variables = VariableBytesOf(image);
  const uint64_t bytes = variables < kSlabBytes ? 0 : OwnBytes(variables);
  if (!self.contexts.Reserve(gpu, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = call();
  if (result != CUDA_SUCCESS) {
    self.contexts.Unreserve(gpu, bytes);
  } else if (bytes != 0) {
    loaded();
    self.link.Send(krux::wire::EventKind::kContextMade, gpu, 0);
  } else {
    SettleSoon(gpu);
  }
  return result;
}

template <typename Call>
CUresult Unload(Call call) {
  const EntryGuard guard;
  const CUresult result = call();
  const uint32_t gpu = guard.active() ? Self().devices.CurrentGpu() : Devices::kNotGranted;
  if (gpu != Devices::kNotGranted && result == CUDA_SUCCESS) SettleSoon(gpu);
  return result;
}

template <typename Call>
CUresult LoadModule(const void* image, Call call) {
  return Load(image, call, [] {});
}

// The driver would load a library with the first launch of a kernel of it, when nobody looks.
template <typename Call>
CUresult LoadLibrary(const void* image, const CUlibrary* library, Call call) {
  return Load(image, call, [&] {
    CUmodule module = nullptr;
    Real().cuLibraryGetModule(&module, *library);
  });
}

}  // namespace

CUresult cuModuleLoad(CUmodule* module, const char* file) {
  return LoadModule(nullptr, [&] { return Real().cuModuleLoad(module, file); });
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return LoadModule(image, [&] { return Real().cuModuleLoadData(module, image); });
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count,
                            CUjit_option* options, void** values) {
  return LoadModule(
      image, [&] { return Real().cuModuleLoadDataEx(module, image, count, options, values); });
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return LoadModule(image, [&] { return Real().cuModuleLoadFatBinary(module, image); });
}

CUresult cuModuleUnload(CUmodule module) {
  return Unload([&] { return Real().cuModuleUnload(module); });
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options,
                           void** jit_values, unsigned int jit_count,
                           CUlibraryOption* library_options, void** library_values,
                           unsigned int library_count) {
  return LoadLibrary(code, library, [&] {
    return Real().cuLibraryLoadData(library, code, jit_options, jit_values, jit_count,
                                    library_options, library_values, library_count);
  });
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* file, CUjit_option* jit_options,
                               void** jit_values, unsigned int jit_count,
                               CUlibraryOption* library_options, void** library_values,
                               unsigned int library_count) {
  return LoadLibrary(nullptr, library, [&] {
    return Real().cuLibraryLoadFromFile(library, file, jit_options, jit_values, jit_count,
                                        library_options, library_values, library_count);
  });
}

CUresult cuLibraryUnload(CUlibrary library) {
  return Unload([&] { return Real().cuLibraryUnload(library); });
}
