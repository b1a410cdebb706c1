// Whose container this is, from the annotations that containerd or CRI-O wrote into the OCI
// specification. Nothing else counts: environment and labels are the tenant's.
//
// Called once per create. Pure.
#ifndef KRUX_RUNTIME_IDENTITY_H_
#define KRUX_RUNTIME_IDENTITY_H_

#include <string>

#include "common/result.h"
#include "runtime/spec.h"

namespace krux::runtime {

enum class ContainerKind {
  kNoPod,      // no pod annotations at all: started by ctr, Docker or by hand
  kSandbox,    // the pod's own (pause) container
  kContainer,  // a container of a pod
};

struct Identity {
  ContainerKind kind = ContainerKind::kNoPod;
  std::string pod_uid;
  std::string pod_namespace;
  std::string pod_name;
  std::string container_name;
};

// Refused: a container of a pod without pod UID or container name, an unknown kind, and annotations
// of containerd and CRI-O at once. The node's container runtime always writes its own family, so a
// second one was smuggled in through pod annotations to pose as another pod.
Result<Identity> ReadIdentity(const Json& spec);

}  // namespace krux::runtime

#endif  // KRUX_RUNTIME_IDENTITY_H_
