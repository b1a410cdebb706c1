# More than any GPU has: pending, with the numbers.
source "$(dirname "$0")/../lib.sh"
pod too-large gpumem=150000 gpucores=10
eventually 30 "describe does not say how much is missing" described too-large "$((150000 - 143771)) MiB short"
phase_is too-large Pending || fail "the pod is $(phase too-large)"
