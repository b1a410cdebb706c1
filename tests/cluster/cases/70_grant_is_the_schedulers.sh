# Nobody but the scheduler writes krux.io/grant: not at creation, not later, not by removing it.
source "$(dirname "$0")/../lib.sh"
pod guarded gpumem=1024 gpucores=10
running guarded
for change in 'krux.io/grant={}' 'krux.io/grant-'; do
  if output=$(kubectl annotate --overwrite pod guarded "$change" 2>&1); then fail "changed by '$change': $output"; fi
  grep -q "krux" <<<"$output" || fail "refused, but not by Krux's policy: $output"
done
if output=$(kubectl run forged --image=krux.io/demo:1 --annotations='krux.io/grant={}' -l krux-test=yes 2>&1); then
  fail "a pod was created with a grant: $output"
fi
