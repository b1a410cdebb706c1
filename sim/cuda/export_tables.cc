// The private tables that the CUDA runtime asks for at its start (cuGetExportTable). Their layouts
// are not documented; what is here is what the runtimes 11.8 to 13.0 were seen to ask and call.
//
// A table's first word is its size in bytes, except in the one for context storage. A slot whose
// meaning is not known refuses. Tables that are not here are answered with INVALID_VALUE, the short
// start with NOT_FOUND, which the runtime takes for "this driver does not have it".
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "sim/cuda/driver.h"
#include "sim/cuda/integrity.h"
#include "sim/cuda/module.h"
#include "sim/cuda/trace.h"

extern "C" const int kKruxSimDriverVersion;

using krux::sim::Checked;
using krux::sim::Context;
using krux::sim::Device;
using krux::sim::FindDevice;
using krux::sim::Module;

namespace {

// A slot: code, a number (the size), or nothing.
union Slot {
  constexpr Slot() : pointer(nullptr) {}
  constexpr explicit Slot(size_t bytes) : size(bytes) {}
  template <typename R, typename... A>
  constexpr explicit Slot(R (*code)(A...)) : function(reinterpret_cast<void (*)()>(code)) {}
  void (*function)();
  size_t size;
  const void* pointer;
};

// Slots whose meaning is not known; numbered, so that a trace tells which one was called.
template <int kTable, int kSlot>
CUresult Refuse() {
  char name[48];
  std::snprintf(name, sizeof name, "slot %d of private table %d", kSlot, kTable);
  krux::sim::TraceMissing("refused", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

// --- What the runtime does with devices and modules ---

// The primary context's handle, without making the context active.
CUresult PrimaryContext(CUcontext* out, CUdevice ordinal) {
  KRUX_SIM_READY();
  Device* device = FindDevice(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(device->primary_mutex);
  *out = reinterpret_cast<CUcontext>(PrimaryHandle(device));
  return CUDA_SUCCESS;
}

CUresult LoadFatbin(CUmodule* out, const void* image) {
  KRUX_SIM_CONTEXT(context);
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* module = nullptr;
  const CUresult result = krux::sim::LoadModule(context, image, &module);
  if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUmodule>(module);
  return result;
}
CUresult LoadFatbinWithOptions(CUmodule* out, const void* image, void*, void*, unsigned) {
  return LoadFatbin(out, image);
}
CUresult LoadContainer(const void* image, CUmodule* out, void*, void*, unsigned) {
  return LoadFatbin(out, image);
}
void DoNothing(size_t) {}
CUresult LoadCompilers() { return CUDA_SUCCESS; }

// --- Storage in contexts ---

Context* ContextOf(CUcontext handle) {
  return handle == nullptr ? krux::sim::CurrentContext() : Checked<Context>(handle);
}

CUresult Put(CUcontext handle, void* key, void* value, void (*destroy)(CUcontext, void*, void*)) {
  Context* context = ContextOf(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard<std::mutex> lock(context->mutex);
  context->storage[key] = {value, destroy};
  return CUDA_SUCCESS;
}

CUresult Delete(CUcontext handle, void* key) {
  Context* context = ContextOf(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard<std::mutex> lock(context->mutex);
  context->storage.erase(key);
  return CUDA_SUCCESS;
}

CUresult Get(void** value, CUcontext handle, void* key) {
  Context* context = ContextOf(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> lock(context->mutex);
  const auto found = context->storage.find(key);
  if (found == context->storage.end()) return CUDA_ERROR_INVALID_HANDLE;
  *value = found->second.value;
  return CUDA_SUCCESS;
}

// --- Hooks for tools: two areas that nobody fills ---

void LargeArea(void** area, size_t* bytes) {
  static char memory[1024];
  *area = memory;
  *bytes = sizeof memory;
}
void SmallArea(void** area, size_t* bytes) {
  static char memory[14];
  *area = memory;
  *bytes = sizeof memory;
}

CUresult CheckContext(CUcontext, unsigned* first, const void**) {
  if (first != nullptr) *first = 0;
  return CUDA_SUCCESS;
}
unsigned CheckNothing() { return 0; }

CUresult Prove(unsigned asked, uint64_t seconds, void* out);

const Slot kRuntime[] = {Slot(size_t{104}),           Slot(LoadFatbin),    Slot(PrimaryContext),
                         Slot(Refuse<0, 3>),          Slot(Refuse<0, 4>),  Slot(Refuse<0, 5>),
                         Slot(LoadFatbinWithOptions), Slot(DoNothing),     Slot(LoadContainer),
                         Slot(Refuse<0, 9>),          Slot(Refuse<0, 10>), Slot(Refuse<0, 11>),
                         Slot(LoadCompilers)};
const Slot kToolsHooks[] = {Slot(size_t{56}),   Slot(Refuse<1, 1>), Slot(LargeArea),
                            Slot(Refuse<1, 3>), Slot(Refuse<1, 4>), Slot(Refuse<1, 5>),
                            Slot(SmallArea)};
const Slot kToolsThreads[] = {Slot(size_t{24}), Slot(Refuse<2, 1>), Slot(Refuse<2, 2>),
                              Slot(Refuse<2, 3>)};
const Slot kStorage[] = {Slot(Put), Slot(Delete), Slot(Get), Slot()};
const Slot kIntegrity[] = {Slot(size_t{24}), Slot(Prove), Slot(Refuse<4, 2>)};
const Slot kContextChecks[] = {Slot(size_t{120}),   Slot(Refuse<5, 1>),  Slot(CheckContext),
                               Slot(CheckNothing),  Slot(Refuse<5, 4>),  Slot(Refuse<5, 5>),
                               Slot(Refuse<5, 6>),  Slot(Refuse<5, 7>),  Slot(Refuse<5, 8>),
                               Slot(Refuse<5, 9>),  Slot(Refuse<5, 10>), Slot(Refuse<5, 11>),
                               Slot(Refuse<5, 12>), Slot(Refuse<5, 13>), Slot(Refuse<5, 14>)};

struct Table {
  unsigned char id[17];
  const Slot* slots;
};
const Table kTables[] = {
    {"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9", kRuntime},
    {"\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66", kToolsHooks},
    {"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc", kToolsThreads},
    {"\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93", kStorage},
    {"\xd4\x08\x20\x55\xbd\xe6\x70\x4b\x8d\x34\xba\x12\x3c\x66\xe1\xf2", kIntegrity},
    {"\x26\x3e\x88\x60\x7c\xd2\x61\x43\x92\xf6\xbb\xd5\x00\x6d\xfa\x7e", kContextChecks},
};

CUresult Prove(unsigned asked, uint64_t seconds, void* out) {
  KRUX_SIM_READY();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<krux::sim::IntegrityDevice> devices;
  for (const auto& device : krux::sim::Devices()) {
    krux::sim::IntegrityDevice& row = devices.emplace_back();
    std::memcpy(row.uuid, device->card().uuid, sizeof row.uuid);
    row.pci_bus = static_cast<int32_t>(device->card().pci_bus);
  }
  const krux::sim::IntegrityFacts facts = {
      static_cast<uint32_t>(kKruxSimDriverVersion), asked,    static_cast<uint32_t>(getpid()),
      static_cast<uint32_t>(pthread_self()),        kRuntime, kIntegrity,
      reinterpret_cast<const void*>(Prove),         seconds};
  const krux::sim::Digest proof = IntegrityProof(facts, devices);
  std::memcpy(out, proof.data(), proof.size());
  return CUDA_SUCCESS;
}

// A short way through the start of the CUDA runtime, which takes the long one when it is not there.
constexpr unsigned char kBootstrap[16] = {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e,
                                          0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9};

void TraceUnknown(const CUuuid& id) {
  char text[2 * sizeof id.bytes + 1];
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    std::snprintf(text + 2 * i, 3, "%02x", static_cast<unsigned char>(id.bytes[i]));
  }
  krux::sim::TraceMissing("no private table", text);
}

}  // namespace

CUresult CUDAAPI cuGetExportTable(const void** table, const CUuuid* id) {
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  for (const Table& row : kTables) {
    if (std::memcmp(row.id, id->bytes, sizeof id->bytes) != 0) continue;
    *table = row.slots;
    return CUDA_SUCCESS;
  }
  TraceUnknown(*id);
  return std::memcmp(kBootstrap, id->bytes, sizeof id->bytes) == 0 ? CUDA_ERROR_NOT_FOUND
                                                                   : CUDA_ERROR_INVALID_VALUE;
}
