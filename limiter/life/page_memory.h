// Zeroed memory straight from the kernel. The limiter's tables use it instead of malloc, so that
// they can grow inside an application's allocator, a fork handler or a lookup by the loader.
#ifndef KRUX_LIMITER_LIFE_PAGE_MEMORY_H_
#define KRUX_LIMITER_LIFE_PAGE_MEMORY_H_

#include <sys/mman.h>

#include <cstddef>

namespace krux::limiter {

// nullptr when the kernel has none. Page-aligned.
inline void* MapPages(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

inline void UnmapPages(void* memory, size_t bytes) { munmap(memory, bytes); }

}  // namespace krux::limiter

#endif  // KRUX_LIMITER_LIFE_PAGE_MEMORY_H_
