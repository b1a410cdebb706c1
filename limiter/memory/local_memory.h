// Which functions were looked at for their local memory: asked once for each, not at each launch.
// A small cache that forgets: a function that fell out of it is looked at again, and charged
// nothing if it is not larger than the largest so far.
//
// Thread-safe without locks. Calls no driver.
#ifndef KRUX_LIMITER_MEMORY_LOCAL_MEMORY_H_
#define KRUX_LIMITER_MEMORY_LOCAL_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "limiter/life/table.h"

namespace krux::limiter {

class KnownFunctions {
 public:
  bool Contains(uint64_t function) const {
    return rows_[RowOf(function)].load(std::memory_order_relaxed) == function;
  }
  void Add(uint64_t function) { rows_[RowOf(function)].store(function, std::memory_order_relaxed); }
  // A context is gone: its local memory with it, and the addresses of its functions can come back.
  void Forget() {
    for (std::atomic<uint64_t>& row : rows_) row.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kRows = 2048;  // a power of two
  static size_t RowOf(uint64_t function) { return MixBits(function) & (kRows - 1); }

  std::atomic<uint64_t> rows_[kRows] = {};
};

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_MEMORY_LOCAL_MEMORY_H_
