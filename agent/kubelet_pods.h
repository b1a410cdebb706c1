// PodSource over the kubelet's own Pods API (gRPC on <kubelet folder>/pods-api/pods-api.sock, beta
// and on from Kubernetes 1.37): no API server, no credentials, and exactly what the kubelet itself
// believes.
//
// It watches, and lists every 30 s as well, since the kubelet drops events silently when a
// client is slow. Any error is kTrouble and is tried again with growing pauses (100 ms to 5 s).
#ifndef KRUX_AGENT_KUBELET_PODS_H_
#define KRUX_AGENT_KUBELET_PODS_H_

#include <memory>
#include <string>

#include "agent/pod_source.h"
#include "common/result.h"

namespace krux::agent {

std::unique_ptr<PodSource> MakeKubeletPods(const std::string& kubelet_folder);

// The pure part: the protobuf bytes of a core/v1 Pod.
Result<Pod> ParsePod(const std::string& bytes);

}  // namespace krux::agent

#endif  // KRUX_AGENT_KUBELET_PODS_H_
