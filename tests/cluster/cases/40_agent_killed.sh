# kill -9 of the agent: running pods go on within their limits, a new pod waits at the gate and does
# not fail, and after the restart grants, accounts and limits are as before.
source "$(dirname "$0")/../lib.sh"
kernels() { kubectl logs "$1" | grep -c '"kernels"'; }
more_kernels() { (($(kernels "$1") >= $2)); }
saturate='krux-demo saturate --iters 100000'
pod before-a gpumem=4096 gpucores=30 run="$saturate"
pod before-b gpumem=8192 gpucores=70 run="$saturate"
for name in before-a before-b; do eventually 60 "$name did not run" more_kernels "$name" 2; done
grants=$(kubectl get pod before-a before-b -o 'jsonpath={.items[*].metadata.annotations.krux\.io/grant}')

cluster stop "$NODE" agent
trap 'cluster start "$NODE" agent || true; clean' EXIT
for name in before-a before-b; do
  count=$(kernels "$name")
  eventually 20 "$name stopped when the agent was killed" more_kernels "$name" $((count + 3))
done
pod newcomer gpumem=1024
eventually 60 "the newcomer's events do not name the agent" described newcomer "Krux agent"
phase_is newcomer Pending || fail "the newcomer is $(phase newcomer): it should wait at the gate"

cluster start "$NODE" agent
running newcomer
for name in before-a before-b; do
  phase_is "$name" Running || fail "$name is $(phase "$name") after the restart"
  count=$(kernels "$name")
  eventually 20 "$name stands still after the restart" more_kernels "$name" $((count + 3))
done
after=$(kubectl get pod before-a before-b -o 'jsonpath={.items[*].metadata.annotations.krux\.io/grant}')
[[ $grants == "$after" ]] || fail "grants changed from $grants to $after"
facts=$(kubectl exec before-a -- krux-demo facts) || fail "exec after the restart: $facts"
[[ $(fact total_mib <<<"$facts") == 4096 ]] || fail "after the restart before-a sees $facts"
# The account was kept: what the running program holds still counts.
awk -v taken="$(fact taken_at_start_mib <<<"$facts")" 'BEGIN { exit !(taken >= 2 * 500) }' ||
  fail "the account forgot the running process: $facts"
