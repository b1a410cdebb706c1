// Copies and sets: that bytes move, ranges, kinds of memory, shapes.
#include <array>
#include <string>
#include <vector>

#include "sim/conformance/families.h"

namespace krux::sim::conformance {
namespace {
using enum Needs;
using enum Where;

// 4096 bytes on the device, freed at the end.
struct Block {
  CUdeviceptr pointer = 0;
  explicit Block(size_t bytes = 4096) { CU(cuMemAlloc, &pointer, bytes); }
  ~Block() { CU(cuMemFree, pointer); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
};

std::string Bytes(CUdeviceptr pointer, size_t count) {
  std::vector<unsigned char> bytes(count);
  if (CU(cuMemcpyDtoH, bytes.data(), pointer, count) != CUDA_SUCCESS) return "unreadable";
  std::string text;
  for (const unsigned char byte : bytes) text += (text.empty() ? "" : ",") + std::to_string(byte);
  return text;
}

const Case kCases[] = {
    {"copy.roundtrip", kContext,
     [](Answer& out) {
       const Block block;
       const std::array<unsigned char, 4> sent = {1, 2, 3, 4};
       out("to", CU(cuMemcpyHtoD, block.pointer + 8, sent.data(), 4));
       out("bytes", Bytes(block.pointer + 8, 4));
     }},
    {"copy.device-to-device", kContext,
     [](Answer& out) {
       const Block block;
       CU(cuMemsetD8, block.pointer, static_cast<unsigned char>(7), 16);
       CU(cuMemsetD8, block.pointer + 100, static_cast<unsigned char>(1), 16);
       out("copy", CU(cuMemcpyDtoD, block.pointer + 104, block.pointer, 4));
       out("bytes", Bytes(block.pointer + 102, 8));
     }},
    {"copy.zero-bytes", kContext,
     [](Answer& out) {
       const Block block;
       char byte = 0;
       out("to", CU(cuMemcpyHtoD, block.pointer, &byte, 0));
       out("from-null", CU(cuMemcpyDtoH, nullptr, 0, 0));
       out("junk", CU(cuMemcpyDtoD, 0x1234, 0x5678, 0));
       out("set", CU(cuMemsetD8, block.pointer, static_cast<unsigned char>(1), 0));
       out("set-junk", CU(cuMemsetD8, 0x1234, static_cast<unsigned char>(1), 0));
     }},
    {"copy.null", kContext,
     [](Answer& out) {
       const Block block;
       out("from-null", CU(cuMemcpyHtoD, block.pointer, nullptr, 4));
       out("to-null", CU(cuMemcpyDtoH, nullptr, block.pointer, 4));
       char byte = 0;
       out("to-zero", CU(cuMemcpyHtoD, 0, &byte, 1));
     }},
    {"copy.junk-device", kContext,
     [](Answer& out) {
       char byte = 0;
       out("to", CU(cuMemcpyHtoD, 0x1234, &byte, 1));
       out("from", CU(cuMemcpyDtoH, &byte, 0x1234, 1));
       const Block block;
       out("between", CU(cuMemcpyDtoD, block.pointer, 0x1234, 1));
     }},
    {"copy.past-end", kContext,
     [](Answer& out) {
       const Block block(4 << 20);
       std::vector<char> bytes((4 << 20) + 1);
       out("to", CU(cuMemcpyHtoD, block.pointer, bytes.data(), (4 << 20) + 1));
       out("from", CU(cuMemcpyDtoH, bytes.data(), block.pointer, (4 << 20) + 1));
       out("set", CU(cuMemsetD8, block.pointer, static_cast<unsigned char>(1), (4 << 20) + 1));
     },
     kOwnProcess},
    {"copy.past-end-small", kContext,
     [](Answer& out) {
       const Block block(100);
       std::array<char, 101> bytes{};
       out("to", CU(cuMemcpyHtoD, block.pointer, bytes.data(), 101));
     },
     kOwnProcess},
    {"copy.freed", kContext,
     [](Answer& out) {
       CUdeviceptr pointer = 0;
       CU(cuMemAlloc, &pointer, 16 << 20);
       CU(cuMemFree, pointer);
       char byte = 0;
       out("from", CU(cuMemcpyDtoH, &byte, pointer, 1));
       out("sync", CU(cuCtxSynchronize));
     },
     kOwnProcess},
    {"copy.unified", kContext,
     [](Answer& out) {
       const Block block;
       std::array<char, 8> bytes = {1, 2, 3, 4, 5, 6, 7, 8};
       out("host-device",
           CU(cuMemcpy, block.pointer, reinterpret_cast<CUdeviceptr>(bytes.data()), 8));
       out("bytes", Bytes(block.pointer, 3));
       std::array<char, 8> other{};
       out("host-host", CU(cuMemcpy, reinterpret_cast<CUdeviceptr>(other.data()),
                           reinterpret_cast<CUdeviceptr>(bytes.data()), 8));
       out("last", static_cast<int>(other[7]));
     }},
    {"copy.wrong-direction", kContext,
     [](Answer& out) {
       const Block block;
       out("device-as-host",
           CU(cuMemcpyHtoD, block.pointer, reinterpret_cast<void*>(block.pointer + 64), 8));
       std::array<char, 8> bytes{};
       out("host-as-device",
           CU(cuMemcpyDtoH, bytes.data(), reinterpret_cast<CUdeviceptr>(bytes.data()), 8));
     },
     kOwnProcess},
    {"copy.async-order", kContext,
     [](Answer& out) {
       const Block block;
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, unsigned{CU_STREAM_NON_BLOCKING});
       for (unsigned char value = 1; value < 50; ++value) {
         CU(cuMemsetD8Async, block.pointer, value, 4096, stream);
       }
       out("copy", CU(cuMemcpyDtoDAsync, block.pointer + 8, block.pointer, 4, stream));
       out("sync", CU(cuStreamSynchronize, stream));
       out("bytes", Bytes(block.pointer + 6, 4));
       CU(cuStreamDestroy, stream);
     }},
    {"copy.async-bad-stream", kContext,
     [](Answer& out) {
       const Block block;
       char byte = 0;
       out("per-thread", CU(cuMemcpyHtoDAsync, block.pointer, &byte, 1, CU_STREAM_PER_THREAD));
       out("legacy", CU(cuMemcpyHtoDAsync, block.pointer, &byte, 1, CU_STREAM_LEGACY));
       CU(cuCtxSynchronize);
     }},
    {"copy.set.widths", kContext,
     [](Answer& out) {
       const Block block;
       out("16", CU(cuMemsetD16, block.pointer, static_cast<unsigned short>(0x0201), 2));
       out("32", CU(cuMemsetD32, block.pointer + 4, 0x04030201U, 1));
       out("bytes", Bytes(block.pointer, 8));
     }},
    {"copy.set.unaligned", kContext,
     [](Answer& out) {
       const Block block;
       out("16", CU(cuMemsetD16, block.pointer + 1, static_cast<unsigned short>(1), 2));
       out("32", CU(cuMemsetD32, block.pointer + 2, 1U, 2));
     }},
    {"copy.set.junk", kContext,
     [](Answer& out) {
       out("junk", CU(cuMemsetD8, 0x1234, static_cast<unsigned char>(1), 4));
       out("zero", CU(cuMemsetD8, 0, static_cast<unsigned char>(1), 4));
     }},
    {"copy.set.overflow", kContext,
     [](Answer& out) {
       const Block block;
       out("bytes-wrap", CU(cuMemsetD32, block.pointer, 1U, ~size_t{0} / 2));
       out("sync", CU(cuCtxSynchronize));
     },
     kOwnProcess},
    {"copy.set.shaped", kContext,
     [](Answer& out) {
       const Block block;
       CU(cuMemsetD8, block.pointer, static_cast<unsigned char>(0), 64);
       out("d8", CU(cuMemsetD2D8, block.pointer, 8, static_cast<unsigned char>(5), 2, 3));
       out("bytes", Bytes(block.pointer, 20));
       out("d32", CU(cuMemsetD2D32, block.pointer, 16, 1U, 1, 2));
       out("bytes", Bytes(block.pointer, 20));
       out("pitch-small", CU(cuMemsetD2D8, block.pointer, 4, static_cast<unsigned char>(5), 8, 2));
       out("odd-pitch", CU(cuMemsetD2D32, block.pointer, 9, 1U, 1, 2));
       out("zero-height", CU(cuMemsetD2D8, block.pointer, 8, static_cast<unsigned char>(5), 2, 0));
     }},
    {"copy.2d.bytes", kContext,
     [](Answer& out) {
       const Block block;
       CU(cuMemsetD8, block.pointer, static_cast<unsigned char>(0), 64);
       const std::array<char, 6> bytes = {1, 2, 3, 4, 5, 6};
       CUDA_MEMCPY2D copy{};
       copy.srcMemoryType = CU_MEMORYTYPE_HOST;
       copy.srcHost = bytes.data();
       copy.srcPitch = 3;
       copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
       copy.dstDevice = block.pointer;
       copy.dstPitch = 8;
       copy.dstXInBytes = 1;
       copy.WidthInBytes = 2;
       copy.Height = 2;
       out("copy", CU(cuMemcpy2D, &copy));
       out("bytes", Bytes(block.pointer, 12));
       out("null", CU(cuMemcpy2D, nullptr));
       copy.dstPitch = 1;
       out("pitch-small", CU(cuMemcpy2D, &copy));
       copy.dstPitch = 8;
       copy.WidthInBytes = 0;
       out("no-width", CU(cuMemcpy2D, &copy));
       copy.WidthInBytes = 2;
       copy.dstMemoryType = Odd<CUmemorytype>(77);
       out("bad-type", CU(cuMemcpy2D, &copy));
     }},
    {"copy.3d.bytes", kContext,
     [](Answer& out) {
       const Block block;
       CU(cuMemsetD8, block.pointer, static_cast<unsigned char>(0), 64);
       const std::array<char, 8> bytes = {1, 2, 3, 4, 5, 6, 7, 8};
       CUDA_MEMCPY3D copy{};
       copy.srcMemoryType = CU_MEMORYTYPE_HOST;
       copy.srcHost = bytes.data();
       copy.srcPitch = 2;
       copy.srcHeight = 2;
       copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
       copy.dstDevice = block.pointer;
       copy.dstPitch = 4;
       copy.dstHeight = 3;
       copy.WidthInBytes = 2;
       copy.Height = 2;
       copy.Depth = 2;
       out("copy", CU(cuMemcpy3D, &copy));
       out("bytes", Bytes(block.pointer, 20));
       copy.dstHeight = 1;
       out("height-small", CU(cuMemcpy3D, &copy));
       out("null", CU(cuMemcpy3D, nullptr));
     }},
    {"copy.peer.same", kContext,
     [](Answer& out) {
       const Block block;
       CU(cuMemsetD8, block.pointer, static_cast<unsigned char>(3), 4);
       out("copy", CU(cuMemcpyPeer, block.pointer + 8, PrimaryContext(), block.pointer,
                      PrimaryContext(), 4));
       out("bytes", Bytes(block.pointer + 8, 4));
       out("null-context",
           CU(cuMemcpyPeer, block.pointer + 8, nullptr, block.pointer, PrimaryContext(), 4));
     },
     kOwnProcess},
    {"copy.batch", kContext,
     [](Answer& out) {
       const Block block;
       CU(cuMemsetD8, block.pointer, static_cast<unsigned char>(4), 4);
       CUdeviceptr to = block.pointer + 16;
       CUdeviceptr from = block.pointer;
       size_t bytes = 4;
       CUmemcpyAttributes attributes{};
       attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
       size_t index = 0;
       CUstream stream = nullptr;
       CU(cuStreamCreate, &stream, 0U);
       out("copy", CU(cuMemcpyBatchAsync, &to, &from, &bytes, 1, &attributes, &index, 1, stream));
       CU(cuStreamSynchronize, stream);
       out("bytes", Bytes(to, 4));
       out("legacy",
           CU(cuMemcpyBatchAsync, &to, &from, &bytes, 1, &attributes, &index, 1, nullptr));
       CU(cuStreamDestroy, stream);
     }},
};

}  // namespace

std::span<const Case> CopyCases() { return kCases; }

}  // namespace krux::sim::conformance
