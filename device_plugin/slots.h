// Slots: the anonymous device ids that the kubelet counts. krux-0 .. krux-<n-1>; a slot is not a
// card. Which card a container gets is decided by the scheduler and checked by the agent.
//
// Ids depend on nothing but their number, so they are the same after every restart and reboot: the
// kubelet keeps the ids of running containers and refuses them when the plugin no longer has them.
//
// Thread rule: plain values and pure functions.
#ifndef KRUX_DEVICE_PLUGIN_SLOTS_H_
#define KRUX_DEVICE_PLUGIN_SLOTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace krux::device_plugin {

constexpr int kMaxSlotsPerGpu = 128;
constexpr int kMaxSlots = kMaxSlotsPerGpu * 128;  // beyond any node; also bounds requests
constexpr char kHealthy[] = "Healthy";            // the kubelet's words
constexpr char kUnhealthy[] = "Unhealthy";

// What the kubelet is told: so many slots, usable or not. All slots have the same health: they are
// unhealthy only when no card of the node works. (A kubelet that restarts refuses containers whose
// own slot is unhealthy, though their card may be fine.)
struct Slots {
  int count = 0;
  bool healthy = false;
  bool operator==(const Slots&) const = default;
};

std::string SlotId(int number);

// The number of "krux-<n>" below kMaxSlots; kInvalidArgument that repeats the id otherwise.
Result<int> ParseSlotId(std::string_view id);

// Checks the ids of one container: at least one, each well-formed, none twice. Sorted by number.
Result<std::vector<int>> ParseSlotIds(const std::vector<std::string>& ids);

// Which slots to use: `must_include` first, then the lowest numbers of `available`, `size` in all
// or fewer where there are fewer. Ids that are none of ours are never chosen.
std::vector<std::string> PreferSlots(const std::vector<std::string>& available,
                                     const std::vector<std::string>& must_include, int size);

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_SLOTS_H_
