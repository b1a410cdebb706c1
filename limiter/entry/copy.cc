// Memsets, and copies within the device: they use the GPU's memory and multiprocessors like a
// kernel, so they pass the gate. Copies from and to the host have engines of their own and do not.
#include "limiter/entry/entry.h"

namespace {

using namespace krux::limiter;

template <typename Call>
CUresult Gated(WorkKind kind, uint64_t bytes, CUstream stream, DefaultStream default_stream,
               Call call) {
  const EntryGuard guard;
  if (!guard.active()) return call();
  return GatedLaunch(stream, default_stream, WorkCost(kind, bytes), call);
}

template <typename Call>
CUresult Memset(uint64_t bytes, CUstream stream, DefaultStream default_stream, Call call) {
  return Gated(WorkKind::kMemset, bytes, stream, default_stream, call);
}

template <typename Call>
CUresult Copy(uint64_t bytes, CUstream stream, DefaultStream default_stream, Call call) {
  return Gated(WorkKind::kCopy, bytes, stream, default_stream, call);
}

constexpr DefaultStream kLegacy = DefaultStream::kLegacy;
constexpr DefaultStream kPerThread = DefaultStream::kPerThread;

}  // namespace

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return Memset(count, nullptr, kLegacy, [&] { return Real().cuMemsetD8_v2(to, value, count); });
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t count) {
  return Memset(count, nullptr, kPerThread,
                [&] { return Real().cuMemsetD8_v2_ptds(to, value, count); });
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return Memset(Product(width, height), nullptr, kLegacy,
                [&] { return Real().cuMemsetD2D8_v2(to, pitch, value, width, height); });
}

CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                              size_t height) {
  return Memset(Product(width, height), nullptr, kPerThread,
                [&] { return Real().cuMemsetD2D8_v2_ptds(to, pitch, value, width, height); });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return Memset(count, stream, kLegacy,
                [&] { return Real().cuMemsetD8Async(to, value, count, stream); });
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return Memset(Product(width, height), stream, kLegacy,
                [&] { return Real().cuMemsetD2D8Async(to, pitch, value, width, height, stream); });
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return Memset(count, stream, kPerThread,
                [&] { return Real().cuMemsetD8Async_ptsz(to, value, count, stream); });
}

CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                                size_t height, CUstream stream) {
  return Memset(Product(width, height), stream, kPerThread, [&] {
    return Real().cuMemsetD2D8Async_ptsz(to, pitch, value, width, height, stream);
  });
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return Memset(Product(count, 2), nullptr, kLegacy,
                [&] { return Real().cuMemsetD16_v2(to, value, count); });
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t count) {
  return Memset(Product(count, 2), nullptr, kPerThread,
                [&] { return Real().cuMemsetD16_v2_ptds(to, value, count); });
}

CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return Memset(Product(Product(width, height), 2), nullptr, kLegacy,
                [&] { return Real().cuMemsetD2D16_v2(to, pitch, value, width, height); });
}

CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                               size_t height) {
  return Memset(Product(Product(width, height), 2), nullptr, kPerThread,
                [&] { return Real().cuMemsetD2D16_v2_ptds(to, pitch, value, width, height); });
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return Memset(Product(count, 2), stream, kLegacy,
                [&] { return Real().cuMemsetD16Async(to, value, count, stream); });
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return Memset(Product(Product(width, height), 2), stream, kLegacy,
                [&] { return Real().cuMemsetD2D16Async(to, pitch, value, width, height, stream); });
}

CUresult cuMemsetD16Async_ptsz(CUdeviceptr to, unsigned short value, size_t count,
                               CUstream stream) {
  return Memset(Product(count, 2), stream, kPerThread,
                [&] { return Real().cuMemsetD16Async_ptsz(to, value, count, stream); });
}

CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                 size_t height, CUstream stream) {
  return Memset(Product(Product(width, height), 2), stream, kPerThread, [&] {
    return Real().cuMemsetD2D16Async_ptsz(to, pitch, value, width, height, stream);
  });
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return Memset(Product(count, 4), nullptr, kLegacy,
                [&] { return Real().cuMemsetD32_v2(to, value, count); });
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t count) {
  return Memset(Product(count, 4), nullptr, kPerThread,
                [&] { return Real().cuMemsetD32_v2_ptds(to, value, count); });
}

CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                          size_t height) {
  return Memset(Product(Product(width, height), 4), nullptr, kLegacy,
                [&] { return Real().cuMemsetD2D32_v2(to, pitch, value, width, height); });
}

CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                               size_t height) {
  return Memset(Product(Product(width, height), 4), nullptr, kPerThread,
                [&] { return Real().cuMemsetD2D32_v2_ptds(to, pitch, value, width, height); });
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return Memset(Product(count, 4), stream, kLegacy,
                [&] { return Real().cuMemsetD32Async(to, value, count, stream); });
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                            size_t height, CUstream stream) {
  return Memset(Product(Product(width, height), 4), stream, kLegacy,
                [&] { return Real().cuMemsetD2D32Async(to, pitch, value, width, height, stream); });
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return Memset(Product(count, 4), stream, kPerThread,
                [&] { return Real().cuMemsetD32Async_ptsz(to, value, count, stream); });
}

CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                                 size_t height, CUstream stream) {
  return Memset(Product(Product(width, height), 4), stream, kPerThread, [&] {
    return Real().cuMemsetD2D32Async_ptsz(to, pitch, value, width, height, stream);
  });
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(bytes, nullptr, kLegacy, [&] { return Real().cuMemcpyDtoD_v2(to, from, bytes); });
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return Copy(bytes, nullptr, kPerThread,
              [&] { return Real().cuMemcpyDtoD_v2_ptds(to, from, bytes); });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(bytes, stream, kLegacy,
              [&] { return Real().cuMemcpyDtoDAsync_v2(to, from, bytes, stream); });
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) {
  return Copy(bytes, stream, kPerThread,
              [&] { return Real().cuMemcpyDtoDAsync_v2_ptsz(to, from, bytes, stream); });
}
