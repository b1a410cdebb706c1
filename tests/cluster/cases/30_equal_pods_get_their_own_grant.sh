# Two pods of the same size at once, ten times: each container sees the GPU of its own grant. They
# are too large for one GPU together, so that a swap would show.
source "$(dirname "$0")/../lib.sh"
for round in $(seq 10); do
  for side in a b; do pod "equal-$side-$round" gpumem=80000 gpucores=40 >/dev/null & done
  wait
  for side in a b; do running "equal-$side-$round"; done
  seen=
  for side in a b; do
    name=equal-$side-$round
    granted=$(kubectl get pod "$name" -o 'jsonpath={.metadata.annotations.krux\.io/grant}' | fact uuid)
    found=$(facts_of "$name" | fact uuid)
    [[ -n $granted && $granted == "$found" ]] || fail "$name: granted $granted, found $found"
    [[ $(facts_of "$name" | fact total_mib) == 80000 ]] || fail "$name sees $(facts_of "$name")"
    seen+="$found "
  done
  read -r first second <<<"$seen"
  [[ $first != "$second" ]] || fail "both pods of round $round are on $first"
  kubectl delete pod -l krux-test=yes --wait=true >/dev/null
done
