# Variables of the pod's own that other systems read as limits or as visible devices.
source "$(dirname "$0")/../lib.sh"
unguarded
pod env-all gpumem=2048 gpucores=20 env=NVIDIA_VISIBLE_DEVICES:all env=LD_PRELOAD: \
  env=CUDA_DEVICE_MEMORY_LIMIT:64g env=CUDA_DEVICE_MEMORY_LIMIT_0:64g env=CUDA_DEVICE_SM_LIMIT:100 \
  env=GPU_CORE_UTILIZATION_POLICY:disable env=KRUX_CONTAINER_FOLDER:/tmp env=KRUX_SIM_FOLDER:/tmp
running env-all
[[ $(facts_of env-all | fact total_mib) == 2048 ]] || fail "sees $(facts_of env-all)"
[[ $(facts_of env-all | fact gpus) == 1 ]] || fail "sees more than its GPU: $(facts_of env-all)"
