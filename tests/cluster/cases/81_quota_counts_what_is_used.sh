# ResourceQuota counts MiB times GPUs, and says used and limit when it refuses.
source "$(dirname "$0")/../lib.sh"
kubectl create quota krux-test --hard=requests.krux.io/gpumem-total=10000
trap 'kubectl delete quota krux-test --ignore-not-found; clean' EXIT
counted() { [[ -n $(kubectl get quota krux-test -o 'jsonpath={.status.hard}') ]]; }
eventually 20 "the quota controller has not seen the quota" counted
refused() {
  local output
  if output=$(pod "$@" 2>&1); then fail "$1 was admitted"; fi
  grep -qF 'exceeded quota' <<<"$output" || fail "$1: $output"
  grep -qF 'limited: requests.krux.io/gpumem-total=10k' <<<"$output" || fail "$1 does not say the limit: $output"
}
refused two-cards gpu=2 gpumem=6000
pod seven gpumem=7000
running seven
refused four gpumem=4000
pod three gpumem=3000
running three
