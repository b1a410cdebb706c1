// The list of slots as it is now, and the ListAndWatch streams that wait for changes of it.
//
// Who calls it: the GPU watcher sets the slots; the plugin service adds streams. Thread-safe.
#ifndef KRUX_DEVICE_PLUGIN_SLOT_BOARD_H_
#define KRUX_DEVICE_PLUGIN_SLOT_BOARD_H_

#include <memory>
#include <mutex>
#include <set>

#include "device_plugin/slots.h"

namespace krux::device_plugin {

class SlotBoard {
 public:
  // Somebody who is told of changes. Wake is called without any lock of the board held.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void Wake() = 0;
  };

  // Wakes all listeners when `slots` differ from the last.
  void Set(const Slots& slots);
  Slots Get() const;

  void Add(std::shared_ptr<Listener> listener);
  void Remove(const std::shared_ptr<Listener>& listener);

 private:
  mutable std::mutex mutex_;  // guards all below
  Slots slots_;
  std::set<std::shared_ptr<Listener>> listeners_;
};

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_SLOT_BOARD_H_
