// One look at the driver: opens it where needed, lists the cards, asks each for its health, takes
// the XIDs. Lives through a driver that is missing at start, is reloaded, or loses a card: NVML is
// opened again while something is wrong.
//
// Who calls it: gpu_watcher.h. Thread rule: one Look at a time, from any thread.
#ifndef KRUX_DEVICE_PLUGIN_DRIVER_PROBE_H_
#define KRUX_DEVICE_PLUGIN_DRIVER_PROBE_H_

#include <memory>
#include <set>
#include <string>

#include "common/clock.h"
#include "device_plugin/inventory.h"
#include "gpu/driver.h"

namespace krux::device_plugin {

class DriverProbe {
 public:
  struct Options {
    gpu::DriverOptions driver;
    gpu::NvmlOpener open = gpu::OpenNvml;
    Nanos reopen = 5 * kSecond;  // between two tries to open NVML anew
  };

  explicit DriverProbe(Options options) : options_(std::move(options)) {}

  // `known` are UUIDs of cards that are asked for their health though they may not be listed. Can
  // take seconds, and for ever when the kernel driver hangs.
  Observation Look(const std::set<std::string>& known, Nanos now);

  gpu::DriverKind kind() const { return kind_; }  // what was found last

 private:
  Status OpenIfNeeded(Nanos now);
  Observation Examine(const std::set<std::string>& known);
  void AddXids(Observation& observation);

  const Options options_;
  std::unique_ptr<gpu::Nvml> nvml_;
  gpu::DriverKind kind_ = gpu::DriverKind::kNone;
  bool trouble_ = false;  // the last look found a fault
  Nanos last_open_ = INT64_MIN;
  Error open_error_;  // what the last try gave
  std::set<std::string> logged_left_out_;
};

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_DRIVER_PROBE_H_
