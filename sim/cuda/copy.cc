#include "sim/cuda/copy.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "sim/cuda/memory.h"

namespace krux::sim {
namespace {

// Bytes per nanosecond: 50 GB/s to and from the host, about 2 TB/s on the card (each byte is read
// and written).
constexpr double kHostRate = 50;
constexpr double kCardRate = 2000;
constexpr Nanos kStart = 1500;

Nanos CopyTime(double bytes, double rate) { return kStart + static_cast<Nanos>(bytes / rate); }

void CopyRows(const Side& to, const Side& from, const Shape& shape) {
  for (size_t layer = 0; layer < shape.layers; ++layer) {
    for (size_t row = 0; row < shape.rows; ++row) {
      std::memmove(to.start + layer * to.layer + row * to.pitch,
                   from.start + layer * from.layer + row * from.pitch, shape.width);
    }
  }
}

// Zeros cost no host memory: whole pages are given back instead of written.
void FillZero(char* start, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const auto address = reinterpret_cast<uintptr_t>(start);
  const uintptr_t first = (address + kPage - 1) / kPage * kPage;
  const uintptr_t last = (address + bytes) / kPage * kPage;
  // Shared memory gives its pages back by another call than memory of one mapping.
  auto* pages = reinterpret_cast<void*>(first);
  if (last <= first || (madvise(pages, last - first, MADV_REMOVE) != 0 &&
                        madvise(pages, last - first, MADV_DONTNEED) != 0)) {
    std::memset(start, 0, bytes);
    return;
  }
  std::memset(start, 0, first - address);
  std::memset(reinterpret_cast<void*>(last), 0, address + bytes - last);
}

void FillRow(char* start, uint32_t value, size_t element_bytes, size_t count) {
  if (element_bytes == 1) {
    std::memset(start, static_cast<int>(value), count);
  } else if (element_bytes == 2) {
    std::fill_n(reinterpret_cast<uint16_t*>(start), count, static_cast<uint16_t>(value));
  } else {
    std::fill_n(reinterpret_cast<uint32_t*>(start), count, value);
  }
}

// What a node of a captured copy tells of it.
std::shared_ptr<const NodeParameters> Describe(const Side& to, const Side& from,
                                               const Shape& shape) {
  auto parameters = std::make_shared<NodeParameters>();
  CUDA_MEMCPY3D& copy = parameters->copy;
  copy.srcMemoryType = from.address != 0 ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  copy.srcDevice = from.address;
  copy.srcHost = from.address != 0 ? nullptr : from.start;
  copy.srcPitch = from.pitch;
  copy.srcHeight = from.pitch != 0 ? from.layer / from.pitch : 0;
  copy.dstMemoryType = to.address != 0 ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  copy.dstDevice = to.address;
  copy.dstHost = to.address != 0 ? nullptr : to.start;
  copy.dstPitch = to.pitch;
  copy.dstHeight = to.pitch != 0 ? to.layer / to.pitch : 0;
  copy.WidthInBytes = shape.width;
  copy.Height = shape.rows;
  copy.Depth = shape.layers;
  return parameters;
}

}  // namespace

bool SideOf(CUdeviceptr address, size_t bytes, Side* side) {
  void* start = BackingOf(address, bytes);
  if (start == nullptr) return false;
  side->start = static_cast<char*>(start);
  side->address = address;
  side->is_device = start != reinterpret_cast<void*>(address);
  if (!side->is_device) TheHostMemory().TouchOnDevice(address);
  return true;
}

bool DeviceSideOf(CUdeviceptr address, size_t bytes, Side* side) {
  return IsDeviceMemory(address) && SideOf(address, bytes, side);
}

bool HostSideOf(const void* pointer, size_t bytes, Side* side) {
  if (pointer == nullptr || !SideOf(reinterpret_cast<CUdeviceptr>(pointer), bytes, side)) {
    return false;
  }
  if (!side->is_device) side->address = 0;
  return true;
}

Work CopyWork(const Side& to, const Side& from, const Shape& shape) {
  Work work;
  work.parameters = Describe(to, from, shape);
  work.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  const auto bytes = static_cast<double>(shape.width) * static_cast<double>(shape.rows) *
                     static_cast<double>(shape.layers);
  work.on_card = to.is_device && from.is_device;
  work.cost = CopyTime(bytes, work.on_card ? kCardRate : kHostRate);
  work.make_action = [=] { return MakeAction([=] { CopyRows(to, from, shape); }); };
  return work;
}

CUresult RunCopy(CUstream handle, const Side& to, const Side& from, const Shape& shape,
                 bool waits) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (waits) {
    if (const CUresult r = CheckNotCapturing(stream); r != CUDA_SUCCESS) return r;
  }
  if (shape.width == 0 || shape.rows == 0 || shape.layers == 0) return CUDA_SUCCESS;
  const CUresult result = Enqueue(stream, CopyWork(to, from, shape));
  if (result == CUDA_SUCCESS && waits) WaitForStream(stream);
  return result;
}

CUresult CopyLinear(CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes, bool waits) {
  KRUX_SIM_CONTEXT(context);
  if (bytes == 0 && context != nullptr) return CUDA_SUCCESS;
  Side to_side;
  Side from_side;
  // Either may be plain host memory; of two unknown addresses at most the first page is none.
  constexpr CUdeviceptr kFirstPages = 65536;
  if (to < kFirstPages || from < kFirstPages || !SideOf(to, bytes, &to_side) ||
      !SideOf(from, bytes, &from_side)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return RunCopy(stream, to_side, from_side, {bytes, 1, 1}, waits);
}

CUresult FillWork(CUdeviceptr address, size_t pitch, uint32_t value, size_t element_bytes,
                  size_t count, size_t rows, Work* work) {
  if ((element_bytes != 1 && element_bytes != 2 && element_bytes != 4) ||
      address % element_bytes != 0 || count > SIZE_MAX / 8) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const size_t width = count * element_bytes;
  if (rows > 1 && (pitch < width || pitch > SIZE_MAX / 2 / rows || pitch % element_bytes != 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Side side;
  if (address == 0 || width == 0 || rows == 0 ||
      !DeviceSideOf(address, (rows - 1) * pitch + width, &side)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  work->type = CU_GRAPH_NODE_TYPE_MEMSET;
  auto parameters = std::make_shared<NodeParameters>();
  parameters->memset = {address, pitch, value, static_cast<unsigned>(element_bytes), count, rows};
  work->parameters = std::move(parameters);
  work->on_card = true;
  work->cost = CopyTime(static_cast<double>(width) * static_cast<double>(rows), kCardRate * 2);
  const bool is_zero = value == 0 && side.is_device;
  work->make_action = [=] {
    return MakeAction([=] {
      for (size_t row = 0; row < rows; ++row) {
        char* start = side.start + row * pitch;
        is_zero ? FillZero(start, width) : FillRow(start, value, element_bytes, count);
      }
    });
  };
  return CUDA_SUCCESS;
}

CUresult Fill(CUstream handle, CUdeviceptr address, size_t pitch, uint32_t value,
              size_t element_bytes, size_t count, size_t rows) {
  KRUX_SIM_CONTEXT(context);
  Stream* stream = FindStream(handle, context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (count == 0 || rows == 0) return CUDA_SUCCESS;
  Work work;
  const CUresult result = FillWork(address, pitch, value, element_bytes, count, rows, &work);
  return result == CUDA_SUCCESS ? Enqueue(stream, std::move(work)) : result;
}

}  // namespace krux::sim
