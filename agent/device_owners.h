// Whose are these device ids? The kubelet asks the plugin to prepare a set of slots and does not
// say for which container; it says so elsewhere: in its PodResources API, which leaves out init
// containers, and in its checkpoint file, which has them all.
//
// Thread rule: Find blocks up to some seconds and may be called from any thread.
#ifndef KRUX_AGENT_DEVICE_OWNERS_H_
#define KRUX_AGENT_DEVICE_OWNERS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace krux::agent {

struct DeviceOwner {
  std::string pod_uid;     // empty where the source does not say
  std::string name_space;  // empty where the source does not say
  std::string pod_name;
  std::string container;
  bool operator==(const DeviceOwner&) const = default;
};

class DeviceOwners {
 public:
  virtual ~DeviceOwners() = default;
  // kNotFound: nobody is known to hold exactly these ids.
  virtual Result<DeviceOwner> Find(const std::vector<std::string>& ids) = 0;
};

// Asks <kubelet folder>/pod-resources/kubelet.sock, then reads
// <kubelet folder>/device-plugins/kubelet_internal_checkpoint.
std::unique_ptr<DeviceOwners> MakeKubeletDeviceOwners(const std::string& kubelet_folder);

// The pure part: the checkpoint's text. kDataLoss when it has another form.
Result<DeviceOwner> FindInCheckpoint(std::string_view checkpoint,
                                     const std::vector<std::string>& ids);

}  // namespace krux::agent

#endif  // KRUX_AGENT_DEVICE_OWNERS_H_
