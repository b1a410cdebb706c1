// What allocations really take on the card, as measured on an H200 (driver 580): up to 1 MiB a
// place in a shared 2 MiB slab, above that multiples of 2 MiB; pools grow by 32 MiB.
// Pure functions. All of them round up and saturate: hostile sizes can't wrap.
#ifndef KRUX_LIMITER_MEMORY_SIZES_H_
#define KRUX_LIMITER_MEMORY_SIZES_H_

#include <cstddef>
#include <cstdint>

namespace krux::limiter {

constexpr uint64_t kMebibyte = 1024 * 1024;
constexpr uint64_t kSlabBytes = 2 * kMebibyte;
constexpr uint64_t kLargestInSlab = kMebibyte;
constexpr uint64_t kPoolGrowthBytes = 32 * kMebibyte;
constexpr uint64_t kTooLarge = UINT64_MAX / 4;  // refused by any limit; sums of a few don't wrap

constexpr uint64_t RoundUp(uint64_t bytes, uint64_t unit) {
  return bytes >= kTooLarge ? kTooLarge : (bytes + unit - 1) / unit * unit;
}

constexpr uint64_t Product(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return 0;
  return a >= kTooLarge / b ? kTooLarge : a * b;
}

constexpr bool SharesSlab(uint64_t bytes) { return bytes <= kLargestInSlab; }

// An allocation with slabs of its own.
constexpr uint64_t OwnBytes(uint64_t bytes) { return RoundUp(bytes, kSlabBytes); }

// The place that a small allocation takes in its slab.
constexpr uint64_t BytesInSlab(uint64_t bytes) { return RoundUp(bytes, 512); }

constexpr uint64_t PoolGrowth(uint64_t bytes) { return RoundUp(bytes, kPoolGrowthBytes); }

// The allocation nodes of a graph together: the device's graph pool grows as other pools do.
constexpr uint64_t GraphBytes(uint64_t bytes_of_nodes) {
  return RoundUp(bytes_of_nodes, kPoolGrowthBytes);
}

// Streams get channels with memory of their own, in steps, and keep them for the next streams
// (8 streams took 4 MiB, 32 took 16, 128 took 70).
constexpr uint64_t StreamBytes(uint64_t streams) {
  return streams == 0 ? 0 : kSlabBytes + OwnBytes(streams * 600 * 1024);
}
constexpr uint64_t kGreenContextBytes = 4 * kMebibyte;
constexpr uint64_t kManagedStepBytes = 128 * kMebibyte;

// An upper bound of an array's memory: block-linear tiles of 64 bytes x 8 rows, in blocks of up to
// 16 tiles, with no more depth than given. Arrays get slabs of their own.
struct ArrayShape {
  uint64_t width = 0, height = 0, depth = 0;  // elements; 0 counts as 1
  uint64_t element_bytes = 0;
};
constexpr uint64_t ArrayBytes(const ArrayShape& shape) {
  const uint64_t height = shape.height == 0 ? 1 : shape.height;
  const uint64_t depth = shape.depth == 0 ? 1 : shape.depth;
  const uint64_t row = RoundUp(Product(shape.width, shape.element_bytes), 64);
  uint64_t block_rows = 8;
  while (block_rows < height && block_rows < 128) block_rows *= 2;
  return OwnBytes(Product(Product(row, RoundUp(height, block_rows)), depth));
}

constexpr uint64_t MipmapBytes(ArrayShape shape, unsigned levels) {
  uint64_t total = 0;
  for (unsigned level = 0; level < levels && level < 32; ++level) {
    total += ArrayBytes(shape);
    shape.width = shape.width > 1 ? shape.width / 2 : 1;
    shape.height = shape.height > 1 ? shape.height / 2 : shape.height;
    shape.depth = shape.depth > 1 ? shape.depth / 2 : shape.depth;
  }
  return total;
}

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_SIZES_H_
