// The cards that this node had, kept in <state folder>/inventory.json, so that after a restart or a
// reboot the kubelet is offered the same slots before the driver has answered:
//
//   {"v":1,"boot":"<boot id>","gpus":[{"uuid":"GPU-…","model":"NVIDIA H200","memoryMiB":143771}]}
//
// Thread rule: functions without state.
#ifndef KRUX_DEVICE_PLUGIN_INVENTORY_RECORD_H_
#define KRUX_DEVICE_PLUGIN_INVENTORY_RECORD_H_

#include <string>
#include <string_view>

#include "common/result.h"
#include "device_plugin/inventory.h"

namespace krux::device_plugin {

inline constexpr char kInventoryFile[] = "inventory.json";

// What tells one run of the kernel from the next.
Result<std::string> BootId();

std::string RecordToJson(const Inventory& inventory, std::string_view boot_id);
// Checks each field; one wrong card makes the whole record wrong.
Result<KnownCards> ParseRecord(std::string_view json, std::string_view boot_id);

// No file: no cards. The record is a convenience: whoever calls goes on without it after an error.
Result<KnownCards> LoadRecord(const std::string& path);
Status SaveRecord(const std::string& path, const Inventory& inventory);

}  // namespace krux::device_plugin

#endif  // KRUX_DEVICE_PLUGIN_INVENTORY_RECORD_H_
