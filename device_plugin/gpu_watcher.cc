#include "device_plugin/gpu_watcher.h"

#include <condition_variable>
#include <mutex>

#include "common/log.h"

namespace krux::device_plugin {

void GpuWatcher::LogOnce(const std::string& problem) {
  if (problem == logged_problem_) return;
  logged_problem_ = problem;
  if (!problem.empty()) KRUX_LOG_WARN("no usable GPU driver, looking again: {}", problem);
}

// NVML keeps a broken state for as long as it is open, so it is opened anew while a fault lasts;
// but not at every look, since that costs up to a second on large hosts.
Status GpuWatcher::OpenIfNeeded(Nanos now) {
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

void GpuWatcher::AddXids(gpu::Nvml& nvml, Observation& observation) {
  for (const gpu::Xid& xid : nvml.TakeXids()) {
    const bool fault = gpu::IsCardFault(xid.number);
    KRUX_LOG_WARN("xid gpu={} number={} {}", xid.uuid, xid.number,
                  fault ? "is a fault of the card" : "is an application's own");
    if (!fault) continue;
    observation.faults[xid.uuid] = "the driver reported XID " + std::to_string(xid.number);
  }
}

Observation GpuWatcher::Examine(gpu::Nvml& nvml) {
  Observation observation;
  const Result<gpu::DeviceList> list = nvml.ListDevices();
  if (!list) {
    observation.driver_problem = list.error().message;
    return observation;
  }
  observation.present = list->devices;
  for (const std::string& sentence : list->left_out) {
    if (logged_left_out_.insert(sentence).second) KRUX_LOG_WARN("{}", sentence);
  }
  std::set<std::string> cards;  // a known card that is no longer listed is asked why
  for (const gpu::Device& device : observation.present) cards.insert(device.uuid);
  for (const Gpu& gpu : tracker_.inventory().gpus) cards.insert(gpu.uuid);
  for (const std::string& uuid : cards) {
    const Status health = nvml.CheckHealth(uuid);
    if (!health) observation.faults[uuid] = health.error().message;
  }
  AddXids(nvml, observation);
  return observation;
}

Observation GpuWatcher::Look(Nanos now) {
  if (const Status opened = OpenIfNeeded(now); !opened) {
    Observation nothing;
    nothing.driver_problem = opened.error().message;
    return nothing;
  }
  return Examine(*nvml_);
}

void GpuWatcher::Poll(Nanos now) {
  const Observation observation = Look(now);
  LogOnce(observation.driver_problem);
  const bool changed = tracker_.Observe(observation, now);
  trouble_ = !observation.driver_problem.empty() || !observation.faults.empty() ||
             observation.present.size() < tracker_.inventory().gpus.size();
  if (!changed) return;
  for (const Gpu& gpu : tracker_.inventory().gpus) {
    KRUX_LOG_INFO("gpu uuid={} model=\"{}\" memory_mib={} healthy={}{}{}", gpu.uuid, gpu.model,
                  gpu.memory_mib, gpu.healthy, gpu.reason.empty() ? "" : " reason: ", gpu.reason);
  }
  on_change_(tracker_.inventory(), kind_);
}

void GpuWatcher::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wait;
  std::unique_lock<std::mutex> lock(mutex);
  while (!stop.stop_requested()) {
    Poll(MonotonicNow());
    wait.wait_for(lock, stop, std::chrono::nanoseconds(options_.interval), [] { return false; });
  }
}

}  // namespace krux::device_plugin
