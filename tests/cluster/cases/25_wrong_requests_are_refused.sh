# Odd requests get one clear sentence and never a GPU.
source "$(dirname "$0")/../lib.sh"
refused() {
  local name=$1 said=$2 output
  shift 2
  if ! output=$(pod "$name" "$@" 2>&1); then
    grep -qF -- "$said" <<<"$output" || fail "$name was denied, but not with '$said': $output"
    return 0
  fi
  eventually 30 "$name: describe does not say '$said'" described "$name" "$said"
  phase_is "$name" Pending || fail "$name is $(phase "$name")"
}
refused cores-101 "gpucores" gpumem=1024 gpucores=101
refused both "gpumem-percentage" gpumem=1024 gpumem-percentage=10
refused percent-101 "gpumem-percentage" gpumem-percentage=101
refused policy "use balance, fixed, none" gpumem=1024 policy=greedy
refused no-gpu "krux.io/gpu" gpu=- gpumem=1024
