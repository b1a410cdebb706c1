// The agent's ledger: which pods hold which parts of which GPUs. It is the last word on whether
// something fits, and it is on disk before anybody is told that it does.
//
// A pod holds its peak: init containers run one after the other beside the sidecars that were
// started before them, app containers run together with all sidecars. It holds it from its first
// admission until the pod is over and its last container is gone, so a container that restarts
// finds its room, and a new instance of a container replaces the old one instead of being added.
//
// File form, version 1: {"v":1,"pods":[{"uid":…,"namespace":…,"name":…,"gen":…,"private":false,
// "containers":[{"name":…,"kind":2,"id":…,"cgroup":…,"owner":0,"gpus":[…]}]}]}
//
// Thread rule: a plain value, no I/O but in LoadLedger and SaveLedger.
#ifndef KRUX_AGENT_LEDGER_H_
#define KRUX_AGENT_LEDGER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/pod_source.h"
#include "common/result.h"
#include "protocol/grant.h"

namespace krux::agent {

constexpr size_t kMaxLedgerBytes = 16 * 1024 * 1024;

struct LedgerContainer {
  std::string name;
  ContainerKind kind = ContainerKind::kApp;
  std::vector<GpuGrant> gpus;
  std::string id;            // of the living instance; empty: none lives now
  std::string cgroups_path;  // of the living instance
  uint32_t owner = 0;        // private containers (`krux run`): the user who asked
  bool operator==(const LedgerContainer&) const = default;
};

struct LedgerPod {
  std::string uid;
  std::string name_space;
  std::string name;
  uint64_t generation = 0;                  // of the grant
  bool is_private = false;                  // a command of `krux run`, no pod
  std::vector<LedgerContainer> containers;  // with GPUs alone, in the pod's order
  bool operator==(const LedgerPod&) const = default;

  LedgerContainer* Find(const std::string& container);
  const LedgerContainer* Find(const std::string& container) const;
  bool AnyAlive() const;
  std::string FullName() const { return name_space + "/" + name; }
};

struct GpuLoad {
  uint64_t memory_mib = 0;
  uint64_t cores = 0;
  bool operator==(const GpuLoad&) const = default;
};

// The most that the pod holds of this GPU at any time of its life.
GpuLoad PeakOf(const LedgerPod& pod, const std::string& gpu_uuid);

class Ledger {
 public:
  struct Place {
    std::string pod_uid;
    std::string container;
  };

  const std::map<std::string, LedgerPod>& pods() const { return pods_; }
  const LedgerPod* FindPod(const std::string& uid) const;
  const LedgerContainer* FindContainer(const Place& place) const;
  // Where the container instance `id` stands; nullptr pod when it is not here.
  const LedgerPod* FindInstance(const std::string& id, const LedgerContainer** container) const;

  // Sum of the pods' peaks on the GPU, leaving one pod out.
  GpuLoad LoadOf(const std::string& gpu_uuid, const std::string& except_uid = "") const;
  // "default/a (4096 MiB, 30 %), default/b (…)": who holds the GPU, at most four names.
  std::string HoldersOf(const std::string& gpu_uuid, const std::string& except_uid = "") const;

  // Adds the pod, or replaces its grant and keeps its living instances.
  void PutPod(LedgerPod pod);
  // Enters the living instance and gives the one that it replaces (empty: none). kNotFound when
  // the pod or its container is not here; kAlreadyExists when `id` lives elsewhere.
  Result<std::string> SetInstance(const Place& place, const std::string& id,
                                  const std::string& cgroups_path);
  // The instance is gone. Unknown ids are ignored.
  void ClearInstance(const std::string& id);
  // Other shares of the living instance, on all its GPUs. Unknown ids are ignored.
  void SetShares(const std::string& id, uint32_t cores, ComputePolicy policy);
  void ErasePod(const std::string& uid) { pods_.erase(uid); }

  std::string ToJson() const;
  // kDataLoss with one sentence that says what is wrong.
  static Result<Ledger> Parse(std::string_view text);

 private:
  std::map<std::string, LedgerPod> pods_;  // by uid
};

// A missing file is an empty ledger; a damaged one is kDataLoss and says what to do.
Result<Ledger> LoadLedger(const std::string& path);
Status SaveLedger(const std::string& path, const Ledger& ledger);

}  // namespace krux::agent

#endif  // KRUX_AGENT_LEDGER_H_
