// The node's cards and their health over time: which exist, which work, and when one that failed is
// trusted again.
//
// Who calls it: the watcher (gpu_watcher.h) once a second. Thread rule: plain values; one thread.
// Time is given as `now`.
#ifndef KRUX_DEVICE_PLUGIN_INVENTORY_H_
#define KRUX_DEVICE_PLUGIN_INVENTORY_H_

#include <map>
#include <string>
#include <vector>

#include "common/clock.h"
#include "device_plugin/slots.h"
#include "gpu/nvml.h"

namespace krux::device_plugin {

struct Gpu {
  std::string uuid;
  std::string model;
  uint64_t memory_mib = 0;
  bool healthy = false;
  std::string reason;  // why it is not healthy, a sentence; empty when it is
  // As in gpu::Device; a card of the record has none until the driver answers.
  int numa_node = -1;
  std::vector<std::string> linked_to{};
  bool operator==(const Gpu&) const = default;
};

// In order of first sight; a card that was seen once stays, so that slots never shrink under
// containers that hold them.
struct Inventory {
  std::vector<Gpu> gpus;
  // The cards are those of the record and the driver has not answered yet: just after a start. The
  // kubelet is then offered the slots already (a kubelet that restarts fails pods whose slots come
  // late), while each container waits at the gate for a card that works.
  bool expected = false;
  bool operator==(const Inventory&) const = default;
};

Slots SlotsOf(const Inventory& inventory, int slots_per_gpu);

// What one look at the driver gave.
struct Observation {
  std::vector<gpu::Device> present;
  std::map<std::string, std::string> faults;  // UUID -> what is wrong with a present card
  std::string driver_problem;                 // not empty: the driver itself does not answer
};

// What the last run of the plugin knew (inventory_record.h).
struct KnownCards {
  std::vector<Gpu> gpus;
  bool same_boot = false;  // the host has not been restarted since: no card can have been taken out
};

// Turns observations into the inventory. A fault counts at once; a card is healthy again after
// `quiet` without any fault, so that one which comes and goes does not flap. A new card is healthy
// at first sight.
class HealthTracker {
 public:
  explicit HealthTracker(Nanos quiet, const KnownCards& known = {});

  // Returns whether the inventory changed.
  bool Observe(const Observation& observation, Nanos now);
  const Inventory& inventory() const { return inventory_; }

 private:
  void AddNewCards(const Observation& observation);
  void EndExpectation(const Observation& observation, Nanos now);
  static std::string FaultOf(const Gpu& gpu, const Observation& observation);
  void Judge(Gpu& gpu, const std::string& fault, Nanos now);

  const Nanos quiet_;
  Inventory inventory_;
  std::map<std::string, Nanos> last_fault_;  // by UUID
  const bool same_boot_;
  Nanos first_look_ = -1;
};

constexpr Nanos kExpectationLimit = 120 * kSecond;  // a driver that loads after the kubelet

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_INVENTORY_H_
