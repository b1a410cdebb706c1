# More than any GPU has: pending, with the numbers.
source "$(dirname "$0")/../lib.sh"
pod too-large gpumem=150000 gpucores=10
eventually 30 "describe does not say what the largest GPU has" \
  described too-large "whose largest GPU has 143771 MiB, 150000 MiB on 1 GPU(s) asked"
phase_is too-large Pending || fail "the pod is $(phase too-large)"
