# The demo of the README, with its own table and exit code. The shares are measured in real time on
# a machine that may do other things meanwhile, so the table has three tries; memory is exact each
# time.
source "$(dirname "$0")/../lib.sh"
trap 'kubectl delete pod,configmap -l app=krux-demo --ignore-not-found --wait=true >/dev/null' EXIT
for try in 1 2 3; do
  if output=$("$KRUX_ROOT/scripts/demo" --seconds 12 2>&1); then exit 0; fi
  printf 'try %s\n%s\n' "$try" "$output"
  if grep -q 'MEMORY OFF' <<<"$output"; then fail "a memory limit is not exact"; fi
done
fail "the demo's table is off three times (see the log)"
