# shellcheck shell=bash
# Sourced by scripts/cluster: up, down, status and load-image.

NODES=1
GPU=auto
SIM_GPUS=1
PROFILES=

parse_up() {
  while (($# > 0)); do
    case $1 in
      --nodes) NODES=${2:?--nodes needs a number}; shift 2 ;;
      --gpu) GPU=${2:?--gpu needs auto, nvidia, sim or none}; shift 2 ;;
      --profiles) PROFILES=${2:?--profiles needs a list}; shift 2 ;;
      --gpus) SIM_GPUS=${2:?--gpus needs a number}; shift 2 ;;
      *) die "unknown argument '$1': up takes --nodes N, --gpu auto|nvidia|sim|none, --gpus N and --profiles LIST" ;;
    esac
  done
  [[ $NODES =~ ^[1-9][0-9]?$ ]] || die "--nodes is '$NODES': use a number from 1 to 99"
  [[ $SIM_GPUS =~ ^([1-9]|1[0-6])$ ]] || die "--gpus is '$SIM_GPUS': use a number from 1 to 16"
  [[ $PROFILES =~ ^[a-z,]*$ ]] || die "--profiles is '$PROFILES': use names with commas between them"
  case $GPU in
    auto) if [[ -e /dev/nvidiactl ]]; then GPU=nvidia; else GPU=sim; fi ;;
    nvidia) [[ -e /dev/nvidiactl ]] || die "--gpu nvidia: this machine has no /dev/nvidiactl, so no NVIDIA driver" ;;
    sim | none) ;;
    *) die "--gpu is '$GPU': use auto, nvidia, sim or none" ;;
  esac
}

need_parts() {
  local file command
  for command in unshare nsenter mount flock od sha256sum; do need_command "$command" "install util-linux and coreutils"; done
  while read -r file; do
    need_file "$KRUX_ROOT/$file" "run scripts/build-kubernetes"
  done < <("$KRUX_ROOT/scripts/build-kubernetes" --list)
  need_file "$IMAGES/pause.tar" "run scripts/build-images"
  if [[ $GPU != none && -n $(missing_krux_parts) ]]; then
    step "plain Kubernetes without Krux, as these are not built: $(missing_krux_parts)"
  fi
}

# all_up: do all spaces of this cluster live?
all_up() {
  local space
  [[ -e $CLUSTER/options ]] || return 1
  for space in $(spaces); do space_pid "$space" >/dev/null || return 1; done
}

cluster_up() {
  local options node names=()
  parse_up "$@"
  need_parts
  options="--nodes $NODES --gpu $GPU --gpus $SIM_GPUS${PROFILES:+ --profiles $PROFILES}, $(if krux_runs; then echo with; else echo without; fi) Krux"
  for ((node = 1; node <= NODES; node++)); do names+=("node-$node"); done
  if all_up; then
    [[ $(<"$CLUSTER/options") == "$options" ]] ||
      die "the cluster is up as $(<"$CLUSTER/options"), not $options: run scripts/cluster down first"
    step "the cluster is already up"
  else
    start_cluster "$options" "${names[@]}"
  fi
  for node in "${names[@]}"; do wait_for_node "$node"; done
  wait_until 30 webhook_registered || die_with_log control webhook "the webhook has not registered"
  wait_until 30 accounts_ready || die_with_log control controller-manager "the namespace 'default' has no service account"
  step "the cluster is up: scripts/cluster kubectl get nodes"
}

start_cluster() {
  local options=$1 node
  shift
  clean_up
  step "starting $# node(s), GPU: $GPU"
  start_control "$@"
  for node; do start_node "$node" "$@"; done
  printf '%s\n' "$options" >"$CLUSTER/options"
  for node; do import_images "$node"; done
  finish_control
  for node; do finish_node "$node"; done
}

# clean_up: ends everything of this cluster, also of one that came up or went down by half. Logs stay.
clean_up() {
  local space all
  rm -rf "$CLUSTER/options" "$CLUSTER/kubectl-cache"
  mapfile -t all < <(spaces)
  stop_spaces "${all[@]}"
  remove_cgroups
  for space in "${all[@]}"; do find "$CLUSTER/$space" -mindepth 1 -maxdepth 1 ! -name logs -exec rm -rf {} +; done
}

cluster_down() {
  (($# == 0)) || die "down takes no arguments"
  clean_up
  step "the cluster is down"
}

service_state() {
  if ! supervised "$1" "$2"; then
    echo STOPPED
  elif [[ -e $CLUSTER/$1/run/$2.pid ]]; then
    echo running
  else
    echo CRASHED # between two starts
  fi
}

# cluster_status: exit code 0 only if everything runs.
cluster_status() {
  local space service state good=0
  need_root
  all_up || { printf 'down (%s)\n' "$CLUSTER"; return 1; }
  printf 'up: %s\n' "$(<"$CLUSTER/options")"
  for space in $(spaces); do
    for service in "$CLUSTER/$space/services"/*; do
      service=$(basename "$service")
      state=$(service_state "$space" "$service")
      [[ $state == running ]] || good=1
      printf '  %-9s %-19s %-8s %s\n' "$space" "$service" "$state" "$(log_path "$space" "$service")"
    done
  done
  kubectl get nodes -o 'custom-columns=NODE:.metadata.name,READY:.status.conditions[?(@.type=="Ready")].status,krux.io/gpu:.status.allocatable.krux\.io/gpu,krux.io/gpumem:.status.allocatable.krux\.io/gpumem' || good=1
  return $good
}

load_images() {
  local archive node
  (($# > 0)) || die "usage: scripts/cluster load-image FILE..."
  all_up || die "the cluster is not up: run scripts/cluster up"
  for archive; do
    [[ -r $archive ]] || die "there is no readable file '$archive'"
    for node in $(nodes); do
      import_image "$node" "$archive"
      step "$node has the images of $archive"
    done
  done
}
