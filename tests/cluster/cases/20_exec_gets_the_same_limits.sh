# A program started by kubectl exec shares its container's account.
source "$(dirname "$0")/../lib.sh"
pod exec-same gpumem=4096 gpucores=30
running exec-same
facts=$(kubectl exec exec-same -- krux-demo facts) || fail "kubectl exec: $facts"
[[ $(fact total_mib <<<"$facts") == 4096 ]] || fail "a program started by exec sees $facts"
awk -v held="$(fact held_at_refusal_mib <<<"$facts")" 'BEGIN { exit !(held > 4094 && held <= 4096) }' ||
  fail "a program started by exec was refused at $facts"
# The shell that kubectl exec gives has the image's own environment, which must not matter.
facts=$(kubectl exec exec-same -- env -i /usr/bin/krux-demo facts) || fail "with an empty environment: $facts"
[[ $(fact total_mib <<<"$facts") == 4096 ]] || fail "with an empty environment it sees $facts"
