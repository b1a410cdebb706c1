# shellcheck shell=bash
# Sourced by scripts/cluster. Each node has a cgroup of its own, /<cluster id>/<node>, in every
# hierarchy (v1 and hybrid) or in the one tree (v2); the kubelet's cgroups are made below it.

CGROUPS=/sys/fs/cgroup
# What the kubelet cannot do without.
CONTROLLERS=(cpuset cpu io memory hugetlb pids)

cgroup_is_v2() { [[ $(stat -f -c %T "$CGROUPS") == cgroup2fs ]]; }

# hierarchies: the folders below which a node's cgroup is made, each once.
hierarchies() {
  if cgroup_is_v2; then
    echo "$CGROUPS"
    return
  fi
  local folder
  for folder in "$CGROUPS"/*; do
    # cpu and cpuacct are links to one folder on many machines.
    [[ -L $folder || ! -e $folder/cgroup.procs ]] || echo "$folder"
  done
}

# make_cgroups NODE
make_cgroups() {
  local hierarchy
  while read -r hierarchy; do
    make_cgroup "$hierarchy" "$CLUSTER_ID"
    make_cgroup "$hierarchy/$CLUSTER_ID" "$1"
  done < <(hierarchies)
}

# make_cgroup PARENT NAME
make_cgroup() {
  local parent=$1 child=$1/$2 file
  if cgroup_is_v2; then
    hand_down "$parent"
    mkdir -p "$child" || die "cgroups can't be made in $parent: is it mounted read-only here?"
    hand_down "$child"
    return
  fi
  mkdir -p "$child" || die "cgroups can't be made in $parent: is it mounted read-only here?"
  for file in cpuset.cpus cpuset.mems; do
    # A new v1 cpuset is empty, and an empty one takes no process.
    if [[ -e $child/$file && -z $(<"$child/$file") ]]; then cat "$parent/$file" >"$child/$file"; fi
  done
}

# hand_down FOLDER: v2: lets children of FOLDER use the controllers that FOLDER has; what the
# machine had is remembered for down.
hand_down() {
  local folder=$1 controller
  [[ $folder != "$CGROUPS" || -e $CLUSTER/controllers_before ]] ||
    cat "$folder/cgroup.subtree_control" >"$CLUSTER/controllers_before"
  for controller in "${CONTROLLERS[@]}"; do
    grep -qw "$controller" "$folder/cgroup.controllers" || continue
    ! grep -qw "$controller" "$folder/cgroup.subtree_control" || continue
    echo "+$controller" 2>/dev/null >"$folder/cgroup.subtree_control" && continue
    # Inside a container the top of the tree holds processes, and then has no controllers for children.
    make_room "$folder"
    echo "+$controller" >"$folder/cgroup.subtree_control" ||
      die "cgroup v2: controller $controller can't be enabled in $folder"
  done
}

# make_room FOLDER: moves its processes into a child; down moves them back.
make_room() {
  local aside=$1/$CLUSTER_ID-aside pid
  mkdir -p "$aside"
  while read -r pid; do
    echo "$pid" 2>/dev/null >"$aside/cgroup.procs" || true # a kernel thread, or it has just ended
  done <"$1/cgroup.procs"
}

# remove_cgroups: all of this cluster; waits for the kernel, which frees them a little after the
# last process has ended.
remove_cgroups() {
  wait_until 10 try_remove_cgroups || die "cgroups of $CLUSTER_ID are still in use below $CGROUPS"
  restore_controllers
}

try_remove_cgroups() {
  local hierarchy folder left=0
  while read -r hierarchy; do
    folder=$hierarchy/$CLUSTER_ID
    [[ -d $folder ]] || continue
    find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
    [[ ! -d $folder ]] || left=1
  done < <(hierarchies)
  return $left
}

# restore_controllers: v2: takes back what hand_down gave at the top, unless another uses it by now,
# and brings back the processes that were moved aside.
restore_controllers() {
  local aside=$CGROUPS/$CLUSTER_ID-aside pid controller
  [[ -e $CLUSTER/controllers_before ]] || return 0
  for controller in $(<"$CGROUPS/cgroup.subtree_control"); do
    grep -qw "$controller" "$CLUSTER/controllers_before" ||
      echo "-$controller" 2>/dev/null >"$CGROUPS/cgroup.subtree_control" || true
  done
  rm -f "$CLUSTER/controllers_before"
  [[ -d $aside ]] || return 0
  while read -r pid; do
    echo "$pid" 2>/dev/null >"$CGROUPS/cgroup.procs" || true
  done <"$aside/cgroup.procs"
  rmdir "$aside" || die "processes can't go back to $CGROUPS: another program's cgroups use its controllers"
}
