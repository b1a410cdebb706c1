# More than any GPU has: denied at once with the numbers, and without the webhook pending with them.
source "$(dirname "$0")/../lib.sh"
if output=$(pod too-large gpumem=150000 gpucores=10 2>&1); then fail "the webhook let it in"; fi
grep -qF "krux.io/gpumem is 150000: the largest GPU of this cluster has 143771 MiB" <<<"$output" || fail "it says: $output"
without_webhook
pod too-large gpumem=150000 gpucores=10
eventually 30 "describe does not say what the largest GPU has" \
  described too-large "whose largest GPU has 143771 MiB, 150000 MiB on 1 GPU(s) asked"
phase_is too-large Pending || fail "the pod is $(phase too-large)"
