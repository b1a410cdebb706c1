#include "device_plugin/gpu_watcher.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "common/log.h"

namespace krux::device_plugin {
namespace {

// Not std::async: its future would wait for a look that hangs, and with it the end of the process.
std::future<Observation> LookInBackground(const std::shared_ptr<DriverProbe>& probe,
                                          const std::set<std::string>& known, Nanos now) {
  std::packaged_task<Observation()> task([probe, known, now] { return probe->Look(known, now); });
  std::future<Observation> future = task.get_future();
  std::thread(std::move(task)).detach();
  return future;
}

}  // namespace

GpuWatcher::GpuWatcher(Options options, OnChange on_change)
    : options_(std::move(options)),
      on_change_(std::move(on_change)),
      tracker_(options_.quiet, options_.known),
      probe_(std::make_shared<DriverProbe>(options_.probe)) {}

void GpuWatcher::LogOnce(const std::string& problem) {
  if (problem == logged_problem_) return;
  logged_problem_ = problem;
  if (!problem.empty()) KRUX_LOG_WARN("no usable GPU driver, looking again: {}", problem);
}

Observation GpuWatcher::Look(Nanos now) {
  std::set<std::string> known;
  for (const Gpu& gpu : tracker_.inventory().gpus) known.insert(gpu.uuid);
  if (!look_.valid()) look_ = LookInBackground(probe_, known, now);
  if (look_.wait_for(std::chrono::nanoseconds(options_.patience)) == std::future_status::ready) {
    Observation observation = look_.get();
    kind_ = probe_->kind();
    return observation;
  }
  Observation hangs;
  hangs.driver_problem = "the GPU driver does not answer: it hangs in the kernel";
  return hangs;
}

void GpuWatcher::Tell() {
  for (const Gpu& gpu : tracker_.inventory().gpus) {
    KRUX_LOG_INFO("gpu uuid={} model=\"{}\" memory_mib={} healthy={}{}{}", gpu.uuid, gpu.model,
                  gpu.memory_mib, gpu.healthy, gpu.reason.empty() ? "" : " reason: ", gpu.reason);
  }
  on_change_(tracker_.inventory(), kind_);
}

void GpuWatcher::Start(Nanos now) {
  if (tracker_.inventory().expected) {
    Tell();
  } else {
    Poll(now);
  }
}

void GpuWatcher::Poll(Nanos now) {
  const Observation observation = Look(now);
  LogOnce(observation.driver_problem);
  if (tracker_.Observe(observation, now)) Tell();
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
