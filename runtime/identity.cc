#include "runtime/identity.h"

#include <string_view>

namespace krux::runtime {
namespace {

// One container runtime's names for the same facts.
struct Family {
  const char* kind;
  const char* pod_uid;
  const char* pod_namespace;
  const char* pod_name;
  const char* container_name;
};

constexpr Family kContainerd = {"io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-uid",
                                "io.kubernetes.cri.sandbox-namespace",
                                "io.kubernetes.cri.sandbox-name",
                                "io.kubernetes.cri.container-name"};
constexpr Family kCrio = {"io.kubernetes.cri-o.ContainerType", "io.kubernetes.pod.uid",
                          "io.kubernetes.pod.namespace", "io.kubernetes.pod.name",
                          "io.kubernetes.container.name"};

// The annotation's text; empty when it is not there.
Result<std::string> TextOf(const Json& annotations, const char* key) {
  const auto found = annotations.find(key);
  if (found == annotations.end()) return std::string();
  if (!found->is_string()) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string("annotation ") + key + " of the OCI spec is not a text"};
  }
  return found->get<std::string>();
}

Result<Identity> ReadFamily(const Json& annotations, const Family& family) {
  Identity identity;
  KRUX_ASSIGN_OR_RETURN(const std::string kind, TextOf(annotations, family.kind));
  if (kind == "sandbox") {
    identity.kind = ContainerKind::kSandbox;
    return identity;
  }
  if (kind != "container") {
    return Error{ErrorCode::kInvalidArgument, std::string("annotation ") + family.kind +
                                                  " of the OCI spec is '" + kind.substr(0, 64) +
                                                  "', not 'sandbox' or 'container'"};
  }
  identity.kind = ContainerKind::kContainer;
  KRUX_ASSIGN_OR_RETURN(identity.pod_uid, TextOf(annotations, family.pod_uid));
  KRUX_ASSIGN_OR_RETURN(identity.pod_namespace, TextOf(annotations, family.pod_namespace));
  KRUX_ASSIGN_OR_RETURN(identity.pod_name, TextOf(annotations, family.pod_name));
  KRUX_ASSIGN_OR_RETURN(identity.container_name, TextOf(annotations, family.container_name));
  if (identity.pod_uid.empty() || identity.container_name.empty()) {
    return Error{ErrorCode::kFailedPrecondition,
                 std::string("the OCI spec lacks annotation ") +
                     (identity.pod_uid.empty() ? family.pod_uid : family.container_name) +
                     "; Krux needs containerd 1.7 or newer, or CRI-O"};
  }
  return identity;
}

}  // namespace

Result<Identity> ReadIdentity(const Json& spec) {
  const auto annotations = spec.find("annotations");
  if (annotations == spec.end() || annotations->is_null()) return Identity{};
  if (!annotations->is_object()) {
    return Error{ErrorCode::kInvalidArgument, "'annotations' of the OCI spec is not an object"};
  }
  const bool containerd = annotations->contains(kContainerd.kind);
  const bool crio = annotations->contains(kCrio.kind);
  if (containerd && crio) {
    return Error{ErrorCode::kPermissionDenied,
                 "the OCI spec has pod annotations of both containerd and CRI-O; remove " +
                     std::string(kContainerd.kind) + " or " + kCrio.kind + " from the pod"};
  }
  if (containerd) return ReadFamily(*annotations, kContainerd);
  if (crio) return ReadFamily(*annotations, kCrio);
  return Identity{};
}

}  // namespace krux::runtime
