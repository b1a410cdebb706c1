#include "device_plugin/inventory.h"

#include <algorithm>

#include "common/units.h"

namespace krux::device_plugin {

Slots SlotsOf(const Inventory& inventory, int slots_per_gpu) {
  Slots slots;
  const auto cards = static_cast<int>(std::min<size_t>(inventory.gpus.size(), 128));
  slots.count = std::min(cards * slots_per_gpu, kMaxSlots);
  slots.healthy = slots.count > 0 && inventory.expected;
  for (const Gpu& gpu : inventory.gpus) slots.healthy |= gpu.healthy;
  return slots;
}

HealthTracker::HealthTracker(Nanos quiet, const KnownCards& known)
    : quiet_(quiet), same_boot_(known.same_boot) {
  for (Gpu gpu : known.gpus) {
    gpu.healthy = false;
    gpu.reason = "not seen yet since the plugin was started";
    inventory_.gpus.push_back(std::move(gpu));
  }
  inventory_.expected = !inventory_.gpus.empty();
}

// The driver's first answer decides: cards that it lists work at once; others were taken out if the
// host was off in between, and are lost if it was not.
void HealthTracker::EndExpectation(const Observation& observation, Nanos now) {
  if (!inventory_.expected) return;
  if (first_look_ < 0) first_look_ = now;
  if (!observation.driver_problem.empty()) {
    inventory_.expected = now - first_look_ < kExpectationLimit;
    return;
  }
  inventory_.expected = false;
  const auto absent = [&](const Gpu& gpu) {
    return std::none_of(observation.present.begin(), observation.present.end(),
                        [&](const gpu::Device& device) { return device.uuid == gpu.uuid; });
  };
  if (!same_boot_) std::erase_if(inventory_.gpus, absent);
  for (Gpu& gpu : inventory_.gpus) {
    gpu.healthy = true;
    gpu.reason.clear();
  }
}

void HealthTracker::AddNewCards(const Observation& observation) {
  for (const gpu::Device& device : observation.present) {
    auto gpu = std::find_if(inventory_.gpus.begin(), inventory_.gpus.end(),
                            [&](const Gpu& known) { return known.uuid == device.uuid; });
    if (gpu == inventory_.gpus.end()) {
      inventory_.gpus.push_back(
          Gpu{device.uuid, device.model, device.memory_bytes / kMiB, /*healthy=*/true, ""});
      gpu = inventory_.gpus.end() - 1;
    }
    gpu->numa_node = device.numa_node;
    gpu->linked_to = device.linked_to;
  }
}

std::string HealthTracker::FaultOf(const Gpu& gpu, const Observation& observation) {
  if (!observation.driver_problem.empty()) return observation.driver_problem;
  if (const auto fault = observation.faults.find(gpu.uuid); fault != observation.faults.end()) {
    return fault->second;
  }
  const bool present =
      std::any_of(observation.present.begin(), observation.present.end(),
                  [&](const gpu::Device& device) { return device.uuid == gpu.uuid; });
  return present ? "" : "the driver does not list this card any more";
}

void HealthTracker::Judge(Gpu& gpu, const std::string& fault, Nanos now) {
  if (!fault.empty()) {
    gpu.healthy = false;
    gpu.reason = fault;
    last_fault_[gpu.uuid] = now;
    return;
  }
  if (gpu.healthy || now - last_fault_[gpu.uuid] < quiet_) return;
  gpu.healthy = true;
  gpu.reason.clear();
}

bool HealthTracker::Observe(const Observation& observation, Nanos now) {
  const Inventory before = inventory_;
  EndExpectation(observation, now);
  AddNewCards(observation);
  for (Gpu& gpu : inventory_.gpus) Judge(gpu, FaultOf(gpu, observation), now);
  return !(inventory_ == before);
}

}  // namespace krux::device_plugin
