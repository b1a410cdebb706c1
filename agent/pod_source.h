// What the agent must know of the node's pods, and the interface through which it hears of them.
//
// Sources: KubeletPods (kubelet_pods.h: the kubelet's own Pods API, Kubernetes 1.37 and newer) and
// fakes in tests. An error of a source never means that a pod is gone.
#ifndef KRUX_AGENT_POD_SOURCE_H_
#define KRUX_AGENT_POD_SOURCE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace krux::agent {

// Integers are in the ledger file: they never change.
enum class ContainerKind : int {
  kInit = 0,     // runs to its end before the next one starts
  kSidecar = 1,  // an init container that is restarted: runs beside all that come after it
  kApp = 2,
};

struct PodContainer {
  std::string name;
  ContainerKind kind = ContainerKind::kApp;
  uint64_t gpus = 0;       // krux.io/gpu that it asks for
  bool asks_krux = false;  // any resource of krux.io at all
  bool operator==(const PodContainer&) const = default;
};

struct Pod {
  std::string uid;
  std::string name_space;
  std::string name;
  std::string runtime_class;
  std::map<std::string, std::string> annotations;  // those of krux.io alone
  std::vector<PodContainer> containers;            // init containers first, in the pod's order
  bool finished = false;  // phase Succeeded or Failed: no container of it starts again
  bool deleting = false;  // has a deletion time
  bool operator==(const Pod&) const = default;

  const PodContainer* Find(const std::string& container) const {
    for (const PodContainer& c : containers) {
      if (c.name == container) return &c;
    }
    return nullptr;
  }
  std::string FullName() const { return name_space + "/" + name; }
};

struct PodEvent {
  enum class Kind {
    kChanged,  // `pod` is new or changed
    kGone,     // the pod `uid` is gone from the node's list; its containers may still run
    kSynced,   // `uids` are all the node's pods: others are gone; the source works
    kTrouble,  // the source does not answer now: `reason`; what is known stays true
  };
  Kind kind = Kind::kTrouble;
  Pod pod;
  std::string uid;
  std::set<std::string> uids;
  std::string reason;
};

// Thread rule: Start once; the sink is called from the source's own threads, one call at a time,
// and never after the destructor has returned.
class PodSource {
 public:
  using Sink = std::function<void(PodEvent)>;
  virtual ~PodSource() = default;
  virtual void Start(Sink sink) = 0;
};

}  // namespace krux::agent

#endif  // KRUX_AGENT_POD_SOURCE_H_
