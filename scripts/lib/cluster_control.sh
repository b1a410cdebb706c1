# shellcheck shell=bash
# Sourced by scripts/cluster. The control plane: certificates, identities, and the services etcd,
# apiserver, controller-manager, scheduler and webhook in the space "control". Its network holds the bridge
# that joins the nodes; nothing of it is reachable from the machine's own network.

CONTROL=$CLUSTER/control
CONTROL_IP=10.250.0.1
NODE_NETWORK=10.250.0.0/24
API_SERVER=https://$CONTROL_IP:6443
SERVICE_NETWORK=10.96.0.0/16

node_ip() { printf '10.250.0.%d\n' $((10 + ${1#node-})); }
pod_network() { printf '10.244.%d.0/24\n' "${1#node-}"; }

kubectl() {
  local pid
  pid=$(space_pid control) || die "the cluster of $CLUSTER is not up: run scripts/cluster up"
  # Its own cache, so that no folder is made in the caller's home.
  KUBECACHEDIR=$CLUSTER/kubectl-cache KUBERC=off nsenter --target "$pid" --net -- \
    "$KUBE_BIN/kubectl" --kubeconfig "$CONTROL/admin.kubeconfig" "$@"
}

# cni FROM SPACE INTERFACE PLUGIN: a CNI plugin, run in the network of process FROM, makes INTERFACE
# in SPACE as the configuration on standard input says. CNI plugins do what "ip" would do: a host
# needs no iproute2.
cni() {
  local pid
  pid=$(space_pid "$2")
  nsenter --target "$1" --net -- env CNI_COMMAND=ADD CNI_CONTAINERID="$2" CNI_IFNAME="$3" \
    CNI_NETNS="/proc/$pid/ns/net" CNI_PATH="$KUBE_BIN/cni" "$KUBE_BIN/cni/$4" >>"$CLUSTER/$2/logs/network.log" 2>&1 ||
    die_with_log "$2" network "the network of $2 was not made"
}

# The plugin insists on being called from another network than the one it changes.
loopback_up() {
  printf '{"cniVersion":"1.0.0","name":"lo","type":"loopback"}' | cni $$ "$1" lo loopback
}

# join_network NODE ALL-NODES...: eth0 of the node on the bridge, with routes to the pods of the others.
join_network() {
  local node=$1 other routes='{"dst":"0.0.0.0/0"}' ip
  ip=$(node_ip "$node")
  shift
  for other; do
    [[ $other == "$node" ]] || routes+=",{\"dst\":\"$(pod_network "$other")\",\"gw\":\"$(node_ip "$other")\"}"
  done
  cni "$(space_pid control)" "$node" eth0 bridge <<JSON
{"cniVersion":"1.0.0","name":"nodes","type":"bridge","bridge":"krux0","isGateway":true,
 "ipam":{"type":"host-local","dataDir":"$CONTROL/addresses","routes":[$routes],
 "ranges":[[{"subnet":"$NODE_NETWORK","gateway":"$CONTROL_IP","rangeStart":"$ip","rangeEnd":"$ip"}]]}}
JSON
}

new_token() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# identity NAME USER GROUPS: a token for USER in the API server's list, in NAME.token and in
# NAME.kubeconfig.
identity() {
  local token
  token=$(new_token)
  printf '%s,%s,%s,"%s"\n' "$token" "$2" "$2" "$3" >>"$CONTROL/tokens.csv"
  printf '%s' "$token" >"$CONTROL/$1.token"
  cat >"$CONTROL/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: krux, cluster: {server: "$API_SERVER", certificate-authority: "$CONTROL/certificates/ca.crt"}}]
users: [{name: "$2", user: {token: "$token"}}]
contexts: [{name: krux, context: {cluster: krux, user: "$2"}}]
current-context: krux
YAML
}

# make_identities NODE...
make_identities() {
  local node
  (umask 077 && : >"$CONTROL/tokens.csv")
  identity admin admin system:masters
  identity controller-manager system:kube-controller-manager ''
  identity scheduler system:kube-scheduler ''
  identity webhook krux:webhook ''
  for node; do
    identity "$node" "system:node:$node" system:nodes
    identity "$node-device-plugin" "krux-device-plugin:$node" krux:device-plugins
  done
}

define_control_services() {
  local certificates=$CONTROL/certificates
  define_service control etcd "$KUBE_BIN/etcd" --data-dir "$CONTROL/etcd" --unsafe-no-fsync \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --log-level warn
  define_service control apiserver "$KUBE_BIN/kube-apiserver" --etcd-servers http://127.0.0.1:2379 \
    --bind-address 0.0.0.0 --advertise-address "$CONTROL_IP" --endpoint-reconciler-type none \
    --tls-cert-file "$certificates/apiserver.crt" --tls-private-key-file "$certificates/apiserver.key" \
    --kubelet-client-certificate "$certificates/kubelet-client.crt" \
    --kubelet-client-key "$certificates/kubelet-client.key" --kubelet-preferred-address-types InternalIP \
    --service-account-issuer https://kubernetes.default.svc \
    --service-account-key-file "$certificates/service-account.key" \
    --service-account-signing-key-file "$certificates/service-account.key" \
    --service-cluster-ip-range "$SERVICE_NETWORK" --token-auth-file "$CONTROL/tokens.csv" \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
    --profiling=false
  define_service control controller-manager "$KUBE_BIN/kube-controller-manager" \
    --kubeconfig "$CONTROL/controller-manager.kubeconfig" --use-service-account-credentials \
    --service-account-private-key-file "$certificates/service-account.key" \
    --root-ca-file "$certificates/ca.crt" --leader-elect=false --bind-address 127.0.0.1 --profiling=false --authentication-skip-lookup
  define_service control webhook "$KUBE_BIN/krux-webhook" --kubeconfig "$CONTROL/webhook.kubeconfig" \
    --listen "$CONTROL_IP:9443" --url "https://$CONTROL_IP:9443" ${PROFILES:+--profiles "$PROFILES"}
  define_service control scheduler "$KUBE_BIN/krux-scheduler" --config "$CONTROL/scheduler.yaml" \
    --authentication-kubeconfig "$CONTROL/scheduler.kubeconfig" \
    --authorization-kubeconfig "$CONTROL/scheduler.kubeconfig" --authentication-skip-lookup --bind-address 127.0.0.1
}

# The deployed configuration, with this cluster's credentials and without a leader to elect.
write_scheduler_config() {
  sed -e "s|^\( *kubeconfig:\).*|\1 $CONTROL/scheduler.kubeconfig|" -e 's/^\( *leaderElect:\).*/\1 false/' \
    "$KRUX_ROOT/deploy/config/scheduler.yaml" >"$CONTROL/scheduler.yaml"
}

# start_control NODE...: on return the API server is starting.
start_control() {
  rm -rf "$CONTROL"
  start_space control
  mkdir -p "$CONTROL/certificates"
  "$KUBE_BIN/kube" make-certificates "$CONTROL/certificates" "$CONTROL_IP"
  make_identities "$@"
  write_scheduler_config
  define_control_services
  loopback_up control
  start_service control etcd
  start_service control apiserver
}

api_ready() { kubectl get --raw /readyz >/dev/null 2>&1; }
webhook_registered() { kubectl get mutatingwebhookconfiguration krux >/dev/null 2>&1; }
accounts_ready() { kubectl get serviceaccount default >/dev/null 2>&1; }

finish_control() {
  wait_until 60 api_ready || die_with_log control apiserver "the API server is not ready after 60 s"
  step "API server is ready"
  start_service control controller-manager
  kubectl apply -f "$KRUX_ROOT/deploy/manifests" >"$CONTROL/logs/manifests.log" 2>&1 ||
    die_with_log control manifests "the manifests of deploy/manifests were refused"
  start_service control scheduler
  start_service control webhook
}
