// Looks at the driver about once a second and tells who wants to know when the inventory changes.
// Lives through a driver that is missing at start, is reloaded, or loses a card: it opens NVML
// again while something is wrong.
//
// Who calls it: main, which runs Poll from a thread of its own (Run). Thread rule: Poll and Run
// from one thread; on_change is called on that thread.
#ifndef KRUX_DEVICE_PLUGIN_GPU_WATCHER_H_
#define KRUX_DEVICE_PLUGIN_GPU_WATCHER_H_

#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "common/clock.h"
#include "device_plugin/inventory.h"
#include "gpu/driver.h"

namespace krux::device_plugin {

class GpuWatcher {
 public:
  // With the driver that was found last.
  using OnChange = std::function<void(const Inventory&, gpu::DriverKind)>;
  struct Options {
    gpu::DriverOptions driver;
    gpu::NvmlOpener open = gpu::OpenNvml;
    KnownCards known;            // of the last run
    Nanos quiet = 30 * kSecond;  // without a fault until a card is healthy again
    Nanos reopen = 5 * kSecond;  // between two tries to open NVML anew
    Nanos interval = kSecond;    // between two looks
  };

  GpuWatcher(Options options, OnChange on_change)
      : options_(std::move(options)),
        on_change_(std::move(on_change)),
        tracker_(options_.quiet, options_.known) {}

  // One look at the driver.
  void Poll(Nanos now);

  // Polls until the stop is asked for.
  void Run(const std::stop_token& stop);

 private:
  Observation Look(Nanos now);
  Status OpenIfNeeded(Nanos now);
  Observation Examine(gpu::Nvml& nvml);
  static void AddXids(gpu::Nvml& nvml, Observation& observation);
  void LogOnce(const std::string& problem);

  const Options options_;
  const OnChange on_change_;
  HealthTracker tracker_;
  gpu::DriverKind kind_ = gpu::DriverKind::kNone;
  std::unique_ptr<gpu::Nvml> nvml_;
  bool trouble_ = false;         // the last look found a fault: NVML is opened again in a while
  Nanos last_open_ = INT64_MIN;  // when NVML was opened or tried last
  Error open_error_;             // what the last try gave
  std::string logged_problem_;
  std::set<std::string> logged_left_out_;
};

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_GPU_WATCHER_H_
