#include "device_plugin/driver_probe.h"

#include "common/log.h"

namespace krux::device_plugin {

// NVML keeps a broken state for as long as it is open, so it is opened anew while a fault lasts;
// but not at every look, since that costs up to a second on large hosts.
Status DriverProbe::OpenIfNeeded(Nanos now) {
  const bool wanted = nvml_ == nullptr || trouble_;
  const bool waited = last_open_ == INT64_MIN || now - last_open_ >= options_.reopen;
  if (!wanted) return Ok();
  if (!waited) return nvml_ != nullptr ? Ok() : Status(open_error_);
  last_open_ = now;
  nvml_.reset();
  auto driver = gpu::ResolveDriver(options_.driver, options_.open);
  auto nvml = driver ? gpu::OpenDriver(*driver, options_.open)
                     : Result<std::unique_ptr<gpu::Nvml>>(driver.error());
  if (!nvml) {
    open_error_ = nvml.error();
    return open_error_;
  }
  if (!trouble_) KRUX_LOG_INFO("driver found: {}", driver->reason);
  kind_ = driver->kind;
  nvml_ = std::move(*nvml);
  return Ok();
}

void DriverProbe::AddXids(Observation& observation) {
  for (const gpu::Xid& xid : nvml_->TakeXids()) {
    const bool fault = gpu::IsCardFault(xid.number);
    KRUX_LOG_WARN("xid gpu={} number={} {}", xid.uuid, xid.number,
                  fault ? "is a fault of the card" : "is an application's own");
    if (!fault) continue;
    observation.faults[xid.uuid] = "the driver reported XID " + std::to_string(xid.number);
  }
}

Observation DriverProbe::Examine(const std::set<std::string>& known) {
  Observation observation;
  const Result<gpu::DeviceList> list = nvml_->ListDevices();
  if (!list) {
    observation.driver_problem = list.error().message;
    return observation;
  }
  observation.present = list->devices;
  for (const std::string& sentence : list->left_out) {
    if (logged_left_out_.insert(sentence).second) KRUX_LOG_WARN("{}", sentence);
  }
  std::set<std::string> cards = known;
  for (const gpu::Device& device : observation.present) cards.insert(device.uuid);
  for (const std::string& uuid : cards) {
    const Status health = nvml_->CheckHealth(uuid);
    if (!health) observation.faults[uuid] = health.error().message;
  }
  AddXids(observation);
  return observation;
}

Observation DriverProbe::Look(const std::set<std::string>& known, Nanos now) {
  Observation observation;
  if (const Status opened = OpenIfNeeded(now); opened) {
    observation = Examine(known);
  } else {
    observation.driver_problem = opened.error().message;
  }
  trouble_ = !observation.driver_problem.empty() || !observation.faults.empty();
  return observation;
}

}  // namespace krux::device_plugin
