#include "agent/device_owners.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "proto/pod_resources.grpc.pb.h"
#include "protocol/names.h"

namespace krux::agent {
namespace {

using nlohmann::json;
using Ids = std::set<std::string>;

constexpr auto kListTimeout = std::chrono::seconds(5);
constexpr size_t kMaxCheckpointBytes = 64 * 1024 * 1024;

Error Unknown(const std::string& why) { return Error{ErrorCode::kNotFound, why}; }

class KubeletDeviceOwners : public DeviceOwners {
 public:
  explicit KubeletDeviceOwners(const std::string& folder)
      : checkpoint_(folder + "/device-plugins/kubelet_internal_checkpoint"),
        lister_(v1::PodResourcesLister::NewStub(
            grpc::CreateChannel("unix:" + folder + "/pod-resources/kubelet.sock",
                                grpc::InsecureChannelCredentials()))) {}

  Result<DeviceOwner> Find(const std::vector<std::string>& ids) override {
    const Result<DeviceOwner> saved = FindSaved(ids);
    Result<DeviceOwner> listed = FindListed(ids);
    if (!listed) return saved;
    // Pods of one name can follow each other: the checkpoint tells which of them it is.
    if (saved && saved->container == listed->container) listed->pod_uid = saved->pod_uid;
    return listed;
  }

 private:
  Result<DeviceOwner> FindSaved(const std::vector<std::string>& ids) {
    KRUX_ASSIGN_OR_RETURN(const std::string text, ReadFile(checkpoint_, kMaxCheckpointBytes));
    return FindInCheckpoint(text, ids);
  }

  Result<DeviceOwner> FindListed(const std::vector<std::string>& ids) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kListTimeout);
    v1::ListPodResourcesResponse response;
    const grpc::Status status = lister_->List(&context, {}, &response);
    if (!status.ok()) return Error{ErrorCode::kUnavailable, status.error_message()};
    const Ids wanted(ids.begin(), ids.end());
    for (const auto& pod : response.pod_resources()) {
      for (const auto& container : pod.containers()) {
        Ids held;
        for (const auto& devices : container.devices()) {
          if (devices.resource_name() != names::kResourceGpu) continue;
          held.insert(devices.device_ids().begin(), devices.device_ids().end());
        }
        if (held == wanted) {
          return DeviceOwner{"", pod.namespace_(), pod.name(), container.name()};
        }
      }
    }
    return Unknown("no container of the PodResources list holds these slots");
  }

  std::string checkpoint_;
  std::unique_ptr<v1::PodResourcesLister::Stub> lister_;
};

// {"Data":{"PodDeviceEntries":[{"PodUID":…,"ContainerName":…,"ResourceName":…,
//  "DeviceIDs":{"-1":["krux-0"]}}]},"Checksum":…}
Ids IdsOfEntry(const json& entry) {
  Ids ids;
  const auto by_node = entry.find("DeviceIDs");
  if (by_node == entry.end() || !by_node->is_object()) return ids;
  for (const json& list : *by_node) {
    if (!list.is_array()) continue;
    for (const json& id : list) {
      if (id.is_string()) ids.insert(id.get<std::string>());
    }
  }
  return ids;
}

std::string TextOf(const json& entry, const char* name) {
  const auto field = entry.find(name);
  return field != entry.end() && field->is_string() ? field->get<std::string>() : "";
}

}  // namespace

Result<DeviceOwner> FindInCheckpoint(std::string_view checkpoint,
                                     const std::vector<std::string>& ids) {
  const json root = json::parse(checkpoint, nullptr, /*allow_exceptions=*/false);
  const Error damaged{ErrorCode::kDataLoss, "the kubelet's device checkpoint has an unknown form"};
  if (!root.is_object() || !root.contains("Data") || !root["Data"].is_object()) return damaged;
  const auto entries = root["Data"].find("PodDeviceEntries");
  if (entries == root["Data"].end() || entries->is_null())
    return Unknown("the checkpoint is empty");
  if (!entries->is_array()) return damaged;
  const Ids wanted(ids.begin(), ids.end());
  for (const json& entry : *entries) {
    if (!entry.is_object() || TextOf(entry, "ResourceName") != names::kResourceGpu) continue;
    if (IdsOfEntry(entry) != wanted) continue;
    return DeviceOwner{TextOf(entry, "PodUID"), "", "", TextOf(entry, "ContainerName")};
  }
  return Unknown("no container of the kubelet's checkpoint holds these slots");
}

std::unique_ptr<DeviceOwners> MakeKubeletDeviceOwners(const std::string& kubelet_folder) {
  return std::make_unique<KubeletDeviceOwners>(kubelet_folder);
}

}  // namespace krux::agent
