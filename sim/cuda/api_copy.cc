// cuMemcpy* and cuMemset*, without arrays (api_array.cc). Forms for the per-thread stream are in
// per_thread.cc.
#include <algorithm>

#include "sim/cuda/copy.h"

using krux::sim::CopyLinear;
using krux::sim::DeviceSideOf;
using krux::sim::Fill;
using krux::sim::HostSideOf;
using krux::sim::RunCopy;
using krux::sim::Side;

namespace {

CUresult FromHost(CUstream stream, CUdeviceptr to, const void* from, size_t bytes, bool waits) {
  KRUX_SIM_READY();
  Side to_side;
  Side from_side;
  if (bytes == 0) return CUDA_SUCCESS;
  if (!DeviceSideOf(to, bytes, &to_side) || !HostSideOf(from, bytes, &from_side)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return RunCopy(stream, to_side, from_side, {bytes, 1, 1}, waits);
}

CUresult ToHost(CUstream stream, void* to, CUdeviceptr from, size_t bytes, bool waits) {
  KRUX_SIM_READY();
  Side to_side;
  Side from_side;
  if (bytes == 0) return CUDA_SUCCESS;
  if (!DeviceSideOf(from, bytes, &from_side) || !HostSideOf(to, bytes, &to_side)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return RunCopy(stream, to_side, from_side, {bytes, 1, 1}, waits);
}

}  // namespace

CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return CopyLinear(nullptr, to, from, bytes, true);
}
CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return CopyLinear(stream, to, from, bytes, false);
}
CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return FromHost(nullptr, to, from, bytes, true);
}
CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes,
                                      CUstream stream) {
  return FromHost(stream, to, from, bytes, false);
}
CUresult CUDAAPI cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return ToHost(nullptr, to, from, bytes, true);
}
CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return ToHost(stream, to, from, bytes, false);
}
// Copies on the card do not make the caller wait.
CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return CopyLinear(nullptr, to, from, bytes, false);
}
CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                      CUstream stream) {
  return CopyLinear(stream, to, from, bytes, false);
}
CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext,
                              size_t bytes) {
  return CopyLinear(nullptr, to, from, bytes, false);
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext,
                                   size_t bytes, CUstream stream) {
  return CopyLinear(stream, to, from, bytes, false);
}

// Copies of one batch may run in any order; here they run one after another.
CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes,
                                       size_t count, CUmemcpyAttributes* attributes,
                                       size_t* attribute_indices, size_t attribute_count,
                                       CUstream stream) {
  KRUX_SIM_CONTEXT(context);
  krux::sim::Stream* found = FindStream(stream, context);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->is_legacy || to == nullptr || from == nullptr || sizes == nullptr || count == 0 ||
      attributes == nullptr || attribute_indices == nullptr || attribute_count == 0 ||
      attribute_count > count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    const CUresult result = CopyLinear(stream, to[i], from[i], sizes[i], false);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return Fill(nullptr, to, 0, value, 1, count, 1);
}
CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return Fill(nullptr, to, 0, value, 2, count, 1);
}
CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return Fill(nullptr, to, 0, value, 4, count, 1);
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                 CUstream stream) {
  return Fill(stream, to, 0, value, 1, count, 1);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                  CUstream stream) {
  return Fill(stream, to, 0, value, 2, count, 1);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count,
                                  CUstream stream) {
  return Fill(stream, to, 0, value, 4, count, 1);
}
CUresult CUDAAPI cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                 size_t height) {
  return Fill(nullptr, to, pitch, value, 1, width, height);
}
CUresult CUDAAPI cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                  size_t height) {
  return Fill(nullptr, to, pitch, value, 2, width, height);
}
CUresult CUDAAPI cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                                  size_t height) {
  return Fill(nullptr, to, pitch, value, 4, width, height);
}
CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                   size_t height, CUstream stream) {
  return Fill(stream, to, pitch, value, 1, width, height);
}
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value,
                                    size_t width, size_t height, CUstream stream) {
  return Fill(stream, to, pitch, value, 2, width, height);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                                    size_t height, CUstream stream) {
  return Fill(stream, to, pitch, value, 4, width, height);
}
