// Device nodes and device rules of the spec: linux.devices and linux.resources.devices.
//
// Both forms of cgroups take them from the spec, and a rule in the spec survives a reload of the
// host's systemd, which one added later does not.
#ifndef KRUX_RUNTIME_MODIFIERS_DEVICES_H_
#define KRUX_RUNTIME_MODIFIERS_DEVICES_H_

#include <string>
#include <vector>

#include "common/result.h"
#include "runtime/spec.h"

namespace krux::runtime {

// Takes out every NVIDIA device node (path /dev/nvidia* or character device 195) with its own
// rules. A rule for all devices, as privileged containers have it, stays.
Status RemoveGpuDevices(Json& spec);

// Adds the nodes (/dev/...), as they are on this host, with the right to open them.
Status AddDevices(Json& spec, const std::vector<std::string>& nodes);

// May the container open every device of the host, whatever is granted? (privileged: true)
bool AllowsEveryDevice(const Json& spec);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_MODIFIERS_DEVICES_H_
