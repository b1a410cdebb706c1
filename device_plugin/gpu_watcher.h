// Looks at the driver about once a second (driver_probe.h) and tells when the inventory changes. A
// look that does not come back, because the kernel driver hangs, counts as a fault of all cards; it
// is waited for in a thread of its own.
//
// Who calls it: main: Start, then Run on a thread of its own. Thread rule: Start, Poll and Run
// never at the same time; on_change is called by whichever runs.
#ifndef KRUX_DEVICE_PLUGIN_GPU_WATCHER_H_
#define KRUX_DEVICE_PLUGIN_GPU_WATCHER_H_

#include <functional>
#include <future>
#include <memory>
#include <stop_token>
#include <string>

#include "common/clock.h"
#include "device_plugin/driver_probe.h"
#include "device_plugin/inventory.h"

namespace krux::device_plugin {

class GpuWatcher {
 public:
  // With the driver that was found last.
  using OnChange = std::function<void(const Inventory&, gpu::DriverKind)>;
  struct Options {
    DriverProbe::Options probe;
    KnownCards known;               // of the last run
    Nanos quiet = 30 * kSecond;     // without a fault until a card is healthy again
    Nanos interval = kSecond;       // between two looks
    Nanos patience = 10 * kSecond;  // for one look
  };

  GpuWatcher(Options options, OnChange on_change);

  // Tells of the cards of the last run at once, so that nobody waits for a slow driver; without
  // such cards looks once, so that what is told first is true.
  void Start(Nanos now);

  // One look at the driver.
  void Poll(Nanos now);

  // Polls until the stop is asked for.
  void Run(const std::stop_token& stop);

 private:
  Observation Look(Nanos now);
  void Tell();
  void LogOnce(const std::string& problem);

  const Options options_;
  const OnChange on_change_;
  HealthTracker tracker_;
  // Shared with a look that hangs, which may outlive this object.
  const std::shared_ptr<DriverProbe> probe_;
  std::future<Observation> look_;  // valid while one is under way
  gpu::DriverKind kind_ = gpu::DriverKind::kNone;
  std::string logged_problem_;
};

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_GPU_WATCHER_H_
