# Cordoned cards, a tainted or cordoned node, and a node whose krux.io/gpu is 0 take nobody; when that
# ends, the waiting pod starts by itself.
source "$(dirname "$0")/../lib.sh"
mapfile -t cards < <(kubectl get kruxnode "$NODE" -o 'jsonpath={range .spec.gpus[*]}{.uuid}{"\n"}{end}')
cordon() { kubectl annotate kruxnode "$NODE" "krux.io/cordon=$1" --overwrite; }
calm() {
  kubectl annotate kruxnode "$NODE" krux.io/cordon- || true
  kubectl taint node "$NODE" krux-test:NoSchedule- 2>/dev/null || true
  kubectl uncordon "$NODE"
  cluster start "$NODE" device-plugin
}
trap 'calm; clean' EXIT
card_of() { kubectl get pod "$1" -o 'jsonpath={.metadata.annotations.krux\.io/grant}' | fact uuid; }

cordon "${cards[0]}"
pod cordoned-card gpumem=1000
running cordoned-card
[[ $(card_of cordoned-card) == "${cards[1]}" ]] || fail "the pod is on $(card_of cordoned-card), which is cordoned"
cordon all
pod all-cards gpumem=1000
eventually 30 "no reason" described all-cards "cordoned"
kubectl annotate kruxnode "$NODE" krux.io/cordon-
running all-cards

kubectl taint node "$NODE" krux-test:NoSchedule
pod tainted gpumem=1000
eventually 30 "no reason" described tainted "untolerated taint"
kubectl taint node "$NODE" krux-test:NoSchedule-
running tainted

kubectl cordon "$NODE"
pod cordoned-node gpumem=1000
eventually 30 "no reason" described cordoned-node "unschedulable"
kubectl uncordon "$NODE"
running cordoned-node

no_slots() { [[ $(kubectl get node "$NODE" -o 'jsonpath={.status.allocatable.krux\.io/gpu}') == 0 ]]; }
cluster stop "$NODE" device-plugin
eventually 30 "the node still shows slots" no_slots
pod no-slots gpumem=1000
eventually 30 "no reason" described no-slots "device plugin is not registered"
cluster start "$NODE" device-plugin
running no-slots
