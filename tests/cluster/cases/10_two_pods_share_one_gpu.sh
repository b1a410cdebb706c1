# The demo of the README, with its own table and exit code.
source "$(dirname "$0")/../lib.sh"
"$KRUX_ROOT/scripts/demo" --seconds 12 || fail "the demo's table is off (see the log)"
kubectl delete pod,configmap -l app=krux-demo --wait=true >/dev/null
