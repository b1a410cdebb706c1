#include "limiter/life/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "common/clock.h"

namespace krux::limiter {
namespace {

constexpr uint32_t kLinesPerSecond = 10;
std::atomic<Nanos> window_start;
std::atomic<uint32_t> lines_in_window;

bool MayWrite() {
  const Nanos now = MonotonicNow();
  Nanos start = window_start.load(std::memory_order_relaxed);
  if (now - start > kSecond &&
      window_start.compare_exchange_strong(start, now, std::memory_order_relaxed)) {
    lines_in_window.store(0, std::memory_order_relaxed);
  }
  return lines_in_window.fetch_add(1, std::memory_order_relaxed) < kLinesPerSecond;
}

}  // namespace

void LogLine(const char* format, ...) {
  if (!MayWrite()) return;
  const int saved = errno;
  char line[512];
  int used = snprintf(line, sizeof line, "krux: ");
  va_list arguments;
  va_start(arguments, format);
  used += vsnprintf(line + used, sizeof line - static_cast<size_t>(used) - 1, format, arguments);
  va_end(arguments);
  if (used > static_cast<int>(sizeof line) - 2) used = static_cast<int>(sizeof line) - 2;
  line[used] = '\n';
  const ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(used) + 1);
  static_cast<void>(written);  // there is nobody to tell
  errno = saved;
}

}  // namespace krux::limiter
