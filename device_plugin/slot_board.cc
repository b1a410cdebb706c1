#include "device_plugin/slot_board.h"

namespace krux::device_plugin {

void SlotBoard::Set(const Slots& slots) {
  std::set<std::shared_ptr<Listener>> listeners;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (slots_ == slots) return;
    slots_ = slots;
    listeners = listeners_;
  }
  for (const std::shared_ptr<Listener>& listener : listeners) listener->Wake();
}

Slots SlotBoard::Get() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return slots_;
}

void SlotBoard::Add(std::shared_ptr<Listener> listener) {
  const std::lock_guard<std::mutex> lock(mutex_);
  listeners_.insert(std::move(listener));
}

void SlotBoard::Remove(const std::shared_ptr<Listener>& listener) {
  const std::lock_guard<std::mutex> lock(mutex_);
  listeners_.erase(listener);
}

}  // namespace krux::device_plugin
