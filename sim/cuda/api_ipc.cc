// cuIpc*: memory of one process in another.
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include "sim/cuda/driver.h"
#include "sim/cuda/ipc.h"
#include "sim/cuda/memory.h"

using krux::sim::Allocation;
using krux::sim::Context;
using krux::sim::Device;
using krux::sim::kChunkBytes;
using krux::sim::MemoryKind;

namespace {

constexpr uint32_t kMagic = 0x4d43504b;

// What a handle says. A region is what was made shareable: whole chunks around the allocation.
struct Wire {
  uint32_t magic;
  int32_t pid;
  int32_t fd;
  uint32_t card;
  uint64_t region_bytes;
  uint64_t offset;  // of the allocation in the region
  uint64_t bytes;
};
static_assert(sizeof(Wire) <= sizeof(CUipcMemHandle));

struct Opened {
  Device* device = nullptr;
  CUdeviceptr region = 0;
};

// Never destroyed: programs call in until they have ended.
std::mutex g_mutex;  // guards both
std::map<CUdeviceptr, krux::UniqueFd>& g_exported = *new std::map<CUdeviceptr, krux::UniqueFd>;
std::map<CUdeviceptr, Opened>& g_opened = *new std::map<CUdeviceptr, Opened>;

// The descriptor of the region's shared file; made when the region is exported for the first time
// since it was allocated. REQUIRES: g_mutex held. -1: no memory for it.
int ExportRegion(Device* device, CUdeviceptr region, uint64_t bytes) {
  krux::UniqueFd& fd = g_exported[region];
  if (fd.valid() && device->memory().IsShared(region)) return fd.get();
  fd = krux::sim::MakeSharedFile(device->card_index(), bytes);
  if (!fd.valid() || !device->memory().ShareKept(region, bytes, fd.get())) return -1;
  return fd.get();
}

bool ReadHandle(const CUipcMemHandle& handle, Wire* wire) {
  std::memcpy(wire, &handle, sizeof *wire);
  return wire->magic == kMagic && wire->region_bytes > 0 && wire->region_bytes % kChunkBytes == 0 &&
         wire->offset < wire->region_bytes && wire->bytes > 0 &&
         wire->bytes <= wire->region_bytes - wire->offset;
}

Device* DeviceOfCard(uint32_t card) {
  for (const auto& device : krux::sim::Devices()) {
    if (device->card_index() == card) return device.get();
  }
  return nullptr;
}

CUresult MapRegion(Context* context, Device* device, const Wire& wire, CUdeviceptr* region) {
  const krux::UniqueFd fd = krux::sim::OpenOfProcess(wire.pid, wire.fd);
  uint32_t card = 0;
  uint64_t bytes = 0;
  if (!fd.valid() || !krux::sim::ReadSharedFile(fd.get(), &card, &bytes) || card != wire.card ||
      bytes != wire.region_bytes) {
    return CUDA_ERROR_MAP_FAILED;
  }
  const CUresult result =
      device->memory().Reserve(context, bytes, kChunkBytes, MemoryKind::kImported, nullptr, region);
  if (result != CUDA_SUCCESS) return result;
  if (device->memory().Share(*region, bytes, fd.get(), 0)) return CUDA_SUCCESS;
  device->memory().Free(*region);
  return CUDA_ERROR_MAP_FAILED;
}

}  // namespace

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  KRUX_SIM_CONTEXT(context);
  Allocation block;
  if (out == nullptr || !krux::sim::FindAllocation(address, &block) ||
      block.kind != MemoryKind::kLinear) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  SynchronizeContext(context);  // nothing may write while the bytes move
  const CUdeviceptr region = block.address / kChunkBytes * kChunkBytes;
  const uint64_t region_bytes = krux::sim::RoundToChunk(block.address + block.bytes - region);
  const std::lock_guard<std::mutex> lock(g_mutex);
  const int fd = ExportRegion(block.device, region, region_bytes);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const Wire wire = {
      kMagic,     getpid(), fd, block.device->card_index(), region_bytes, block.address - region,
      block.bytes};
  *out = {};
  std::memcpy(out, &wire, sizeof wire);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle,
                                       unsigned int flags) {
  KRUX_SIM_CONTEXT(context);
  Wire wire;
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !ReadHandle(handle, &wire)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (wire.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  Device* device = DeviceOfCard(wire.card);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (const CUresult r = device->Attach(); r != CUDA_SUCCESS) return r;
  CUdeviceptr region = 0;
  const CUresult result = MapRegion(context, device, wire, &region);
  if (result != CUDA_SUCCESS) return result;
  *out = region + wire.offset;
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_opened[*out] = {device, region};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return cuIpcOpenMemHandle_v2(out, handle, flags);
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr address) {
  KRUX_SIM_CONTEXT(context);
  SynchronizeContext(context);
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto found = g_opened.find(address);
  if (found == g_opened.end()) return CUDA_ERROR_INVALID_VALUE;
  found->second.device->memory().Free(found->second.region);
  g_opened.erase(found);
  return CUDA_SUCCESS;
}
