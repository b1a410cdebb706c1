#include "sim/cuda/shared_hold.h"

#include <fcntl.h>
#include <sys/file.h>

#include <string>

#include "sim/cuda/memory.h"

namespace krux::sim {
namespace {

struct Held {
  Device* device = nullptr;
  uint64_t bytes = 0;
  UniqueFd probe;  // the same file, opened a second time
};

// Never destroyed: programs call in until they have ended.
std::mutex g_mutex;  // guards the list
std::vector<Held>& g_held = *new std::vector<Held>;
std::atomic<size_t> g_count{0};  // of the list, so that others need not look while it is empty

bool IsUnused(const Held& held) {
  if (held.probe.valid() && flock(held.probe.get(), LOCK_EX | LOCK_NB) != 0) return false;
  held.device->memory().Refund(held.bytes);
  return true;
}

}  // namespace

bool MarkExported(const UniqueFd& file) { return flock(file.get(), LOCK_EX | LOCK_NB) == 0; }

void RefundWhenUnused(Device* device, uint64_t bytes, UniqueFd file) {
  Held held{device, bytes, UniqueFd()};
  if (file.valid()) {
    const std::string path = "/proc/self/fd/" + std::to_string(file.get());
    held.probe.Reset(open(path.c_str(), O_RDWR | O_CLOEXEC));
  }
  file.Reset();
  if (IsUnused(held)) return;
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_held.push_back(std::move(held));
  g_count.store(g_held.size());
}

void RefundUnused() {
  if (g_count.load() == 0) return;
  const std::lock_guard<std::mutex> lock(g_mutex);
  std::erase_if(g_held, IsUnused);
  g_count.store(g_held.size());
}

}  // namespace krux::sim
