# shellcheck shell=bash
# Sourced by scripts/cluster. A node: configurations of its services, written anew at each start with
# the paths of this checkout, and their start. GPU is nvidia, sim or none; SIM_GPUS counts cards.

readonly CONTAINERD_SOCKET=/run/containerd/containerd.sock
# What must be there for Krux on a node.
KRUX_PARTS=(bin/krux-agent bin/krux-device-plugin bin/krux-runtime lib/libkrux.so)

SIM_PARTS=(bin/krux-sim sim/libcuda.so.1 sim/libnvidia-ml.so.1)

missing_krux_parts() {
  local part parts=("${KRUX_PARTS[@]}")
  [[ $GPU != sim ]] || parts+=("${SIM_PARTS[@]}")
  for part in "${parts[@]}"; do [[ -e $RELEASE/$part ]] || printf 'build/release/%s ' "$part"; done
}

# krux_runs: does this cluster run Krux's own services?
krux_runs() { [[ $GPU != none && -z $(missing_krux_parts) ]]; }

may_lower_oom_score() {
  local capabilities
  capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
  (((0x$capabilities >> 24) & 1)) # CAP_SYS_RESOURCE
}

runtime_entry() {
  cat <<TOML
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.$1]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.$1.options]
    BinaryName = "$2"
TOML
}

# write_containerd_config NODE: nothing outside the folders that are the node's own is written;
# without NRI, /opt/containerd and AppArmor profiles, which would be the machine's.
write_containerd_config() {
  local folder=$CLUSTER/$1
  cat >"$folder/containerd.toml" <<TOML
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = "$CONTAINERD_SOCKET"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "krux.io/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = $(if may_lower_oom_score; then echo false; else echo true; fi)
  disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["$KUBE_BIN/cni"]
  conf_dir = "$folder/cni"
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
$(runtime_entry runc "$KUBE_BIN/runc")
$(if krux_runs; then runtime_entry krux "$folder/bin/krux-runtime"; fi)
TOML
  mkdir -p "$folder/cni"
  cat >"$folder/cni/pods.conflist" <<JSON
{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge","bridge":"cni0","isGateway":true,"hairpinMode":true,
"ipam":{"type":"host-local","ranges":[[{"subnet":"$(pod_network "$1")"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}
JSON
}

write_kubelet_config() {
  local folder=$CLUSTER/$1
  # There is no name server to pass on.
  printf 'options ndots:1\n' >"$folder/resolv.conf"
  cat >"$folder/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: false}
  x509: {clientCAFile: "$CONTROL/certificates/ca.crt"}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /$CLUSTER_ID/$1
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://$CONTAINERD_SOCKET
volumePluginDir: /var/lib/kubelet/volumeplugins
resolvConf: $folder/resolv.conf
# No name server runs: a look-up fails at once, rather than after a time-out.
clusterDNS: [127.0.0.1]
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 3s
readOnlyPort: 0
# The disk is the machine's, not the node's: how full it is says nothing about the node.
evictionHard: {memory.available: "1%", nodefs.available: "0%", imagefs.available: "0%", nodefs.inodesFree: "0%"}
imageGCHighThresholdPercent: 100
YAML
}

# write_krux_runtime NODE: the runtime beside the configuration that is its own.
write_krux_runtime() {
  local folder=$CLUSTER/$1
  mkdir -p "$folder/bin"
  cp "$RELEASE/bin/krux-runtime" "$folder/bin/krux-runtime"
  printf '{"agentSocket":"/run/krux/agent.sock","runtime":"%s"}\n' "$KUBE_BIN/runc" >"$folder/bin/krux-runtime.json"
}

define_node_services() {
  local node=$1
  define_service "$node" containerd env "PATH=$KUBE_BIN:$PATH" \
    "$KUBE_BIN/containerd" --config "$CLUSTER/$node/containerd.toml"
  define_service "$node" kubelet "$KUBE_BIN/kubelet" --config "$CLUSTER/$node/kubelet.yaml" \
    --kubeconfig "$CONTROL/$node.kubeconfig" --hostname-override "$node" --node-ip "$(node_ip "$node")" \
    --root-dir /var/lib/kubelet --cert-dir /var/lib/kubelet/pki
  krux_runs || return 0
  define_service "$node" agent "$RELEASE/bin/krux-agent" --node "$node" --run-folder /run/krux \
    --state-folder /var/lib/krux --kubelet-folder /var/lib/kubelet --limiter "$RELEASE/lib/libkrux.so" \
    --gpu "$GPU" --sim-libraries "$RELEASE/sim" --sim-folder /run/krux-sim
  define_service "$node" device-plugin "$RELEASE/bin/krux-device-plugin" --node "$node" --run-folder /run/krux \
    --kubelet-plugins-folder /var/lib/kubelet/device-plugins --gpu "$GPU" \
    --sim-libraries "$RELEASE/sim" --sim-folder /run/krux-sim --apiserver "$API_SERVER" \
    --ca-file "$CONTROL/certificates/ca.crt" --token-file "$CONTROL/$node-device-plugin.token"
}

# start_node NODE ALL-NODES...: namespaces, network and containerd; the kubelet waits for the API.
start_node() {
  local node=$1 folder=$CLUSTER/$1
  rm -rf "$folder"
  make_cgroups "$node"
  start_space "$node"
  loopback_up "$node"
  join_network "$@"
  ! krux_runs || write_krux_runtime "$node"
  write_containerd_config "$node"
  write_kubelet_config "$node"
  define_node_services "$node"
  start_service "$node" containerd
}

containerd_ready() { ctr "$1" version >/dev/null 2>&1; }
ctr() {
  local node=$1
  shift
  enter "$node" "$KUBE_BIN/ctr" --address "$CONTAINERD_SOCKET" --namespace k8s.io "$@"
}

# import_image NODE ARCHIVE: from standard input, as the node may not see the archive's folder.
import_image() {
  ctr "$1" images import - <"$2" >>"$CLUSTER/$1/logs/images.log" 2>&1 ||
    die_with_log "$1" images "containerd of $1 does not take $2"
}

import_images() {
  local archive
  wait_until 20 containerd_ready "$1" || die_with_log "$1" containerd "containerd of $1 does not answer"
  for archive in "$IMAGES"/*.tar; do import_image "$1" "$archive"; done
}

# finish_node NODE: Krux's services and the kubelet.
finish_node() {
  local node=$1
  if krux_runs; then
    [[ $GPU != sim ]] || init_simulation "$node"
    start_service "$node" agent
    start_service "$node" device-plugin
  fi
  start_service "$node" kubelet
}

# The node's name gives the cards their UUIDs: no two nodes have the same, and each has its own again.
init_simulation() {
  enter "$1" "$RELEASE/bin/krux-sim" --folder /run/krux-sim init --gpus "$SIM_GPUS" --node "$1" \
    >>"$CLUSTER/$1/logs/sim.log" 2>&1 || die_with_log "$1" sim "the simulated cards of $1 were not made"
}

node_field() { kubectl get node "$1" -o "jsonpath=$2" 2>/dev/null; }
node_ready() { [[ $(node_field "$1" '{.status.conditions[?(@.type=="Ready")].status}') == True ]]; }
# Ready, and the taint of a new node gone.
node_usable() { node_ready "$1" && [[ -z $(node_field "$1" '{.spec.taints}') ]]; }
node_has_gpus() { [[ $(node_field "$1" '{.status.allocatable.krux\.io/gpu}') =~ ^[1-9] ]]; }

wait_for_node() {
  wait_until 60 node_usable "$1" || die_with_log "$1" kubelet "$1 is not Ready after 60 s"
  step "$1 is Ready"
  krux_runs || return 0
  wait_until 40 node_has_gpus "$1" || die_with_log "$1" device-plugin "$1 shows no krux.io/gpu after 40 s"
  step "$1 has krux.io/gpu: $(node_field "$1" '{.status.allocatable.krux\.io/gpu}')"
}
