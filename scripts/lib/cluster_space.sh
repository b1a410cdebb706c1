# shellcheck shell=bash
# Sourced by scripts/cluster. A space is a set of namespaces (mount, network, process, host name,
# IPC) with services in it: "control", "node-1", "node-2", ... Each has a folder:
#   pid         of the space's first process, seen from outside, and when that one was started
#   services/   one shell script for each service        logs/   what each wrote
#   run/        process ids, seen from inside            down/   services that shall not run

CLUSTER=$(realpath -m "${KRUX_CLUSTER_DIR:-$KRUX_BUILD/cluster}")
# Tells clusters of different folders apart in the one cgroup tree of the machine.
# shellcheck disable=SC2034
CLUSTER_ID=krux-$(printf '%s' "$CLUSTER" | sha256sum | cut -c1-8)

# stat_of PID: sets stat to what /proc says after the program's name (which may hold anything):
# state, parent, ... The 20th is the start, a number that no later process with the same id shares.
stat_of() {
  local line
  read -r line 2>/dev/null <"/proc/$1/stat" || return 1
  read -r -a stat <<<"${line##*) }"
}

started_at() { stat_of "$1" && printf '%s\n' "${stat[19]}"; }

# space_pid SPACE: the first process of the space; false when it does not live.
space_pid() {
  local pid started
  read -r pid started 2>/dev/null <"$CLUSTER/$1/pid" || return 1
  [[ $(started_at "$pid") == "$started" ]] || return 1
  printf '%s\n' "$pid"
}

# spaces: names of all spaces that were started and not cleaned up, nodes first.
spaces() {
  local space
  for space in "$CLUSTER"/node-* "$CLUSTER"/control; do
    [[ ! -e $space/outside ]] || basename "$space"
  done
}

nodes() { spaces | grep '^node-' || true; }

# enter SPACE COMMAND...: runs the command inside, in the root folder.
enter() {
  local pid
  pid=$(space_pid "$1") || die "there is no running '$1' in $CLUSTER (scripts/cluster status)"
  shift
  (cd / && exec nsenter --target "$pid" --mount --uts --ipc --net --pid -- "$@")
}

# child_of PID: its only child.
child_of() {
  local folder
  for folder in /proc/[0-9]*; do
    stat_of "${folder#/proc/}" && [[ ${stat[1]} == "$1" ]] || continue
    printf '%s\n' "${folder#/proc/}"
    return
  done
  return 1
}

# start_space SPACE: makes the namespaces; on return its folders are mounted and it is empty.
start_space() {
  local folder=$CLUSTER/$1 outside pid
  mkdir -p "$folder"/{services,logs,run,down}
  rm -f "$folder/ready"
  setsid unshare --mount --uts --ipc --net --pid --fork --mount-proc --kill-child \
    bash "$KRUX_ROOT/scripts/lib/cluster_init" "$1" "$folder" "$KRUX_ROOT" \
    </dev/null >"$folder/logs/init.log" 2>&1 9>&- &
  outside=$!
  printf '%s %s\n' "$outside" "$(started_at "$outside")" >"$folder/outside"
  wait_until 10 test -e "$folder/ready" || die_with_log "$1" init "the namespaces of $1 were not made"
  pid=$(child_of "$outside") || die_with_log "$1" init "the first process of $1 ended"
  printf '%s %s\n' "$pid" "$(started_at "$pid")" >"$folder/pid"
}

# stop_spaces SPACE...: ends all their processes and waits until they are gone; mounts and interfaces
# go with the last of them.
stop_spaces() {
  local space pid started
  for space; do
    read -r pid started <"$CLUSTER/$space/outside"
    process_gone "$pid" "$started" || kill -KILL "$(space_pid "$space" || echo "$pid")" 2>/dev/null || true
  done
  for space; do
    read -r pid started <"$CLUSTER/$space/outside"
    wait_until 30 process_gone "$pid" "$started" || die "process $pid of $space does not end"
  done
}

process_gone() { [[ $(started_at "$1") != "$2" ]]; }

# define_service SPACE NAME COMMAND...: writes the script that the service runs.
define_service() {
  local file=$CLUSTER/$1/services/$2
  shift 2
  {
    printf '#!/bin/bash\nexec'
    printf ' %q' "$@"
    printf '\n'
  } >"$file"
}

# start_service SPACE NAME
start_service() {
  (($# == 2)) || die "usage: scripts/cluster start NODE SERVICE"
  local folder=$CLUSTER/$1
  need_service "$1" "$2"
  rm -f "$folder/down/$2"
  ! supervised "$1" "$2" || return 0
  # shellcheck disable=SC2016
  # The inner shell ends at once and leaves the service to the space's first process.
  enter "$1" bash -c 'setsid bash "$0" "$1" "$2" </dev/null >/dev/null 2>&1 9>&- &' \
    "$KRUX_ROOT/scripts/lib/cluster_service" "$folder" "$2"
}

# stop_service SPACE NAME [SIGNAL]: returns when it is gone.
stop_service() {
  (($# == 2 || $# == 3)) || die "usage: scripts/cluster stop NODE SERVICE [SIGNAL]"
  need_service "$1" "$2"
  touch "$CLUSTER/$1/down/$2"
  wait_until 30 try_stop_service "$1" "$2" "${3:-KILL}" || die "$2 of $1 does not end: it ignores ${3:-KILL}"
}

try_stop_service() {
  local pid
  ! unsupervised "$1" "$2" || return 0
  ! pid=$(cat "$CLUSTER/$1/run/$2.pid" 2>/dev/null) || enter "$1" kill -s "$3" "$pid" 2>/dev/null || true
  unsupervised "$1" "$2"
}

need_service() {
  [[ -e $CLUSTER/$1/services/$2 ]] || die "'$1' has no service '$2' (scripts/cluster status lists them)"
}

# The supervisor holds a lock on this file as long as it lives.
supervised() { [[ -e $CLUSTER/$1/run/$2.lock ]] && ! flock --nonblock "$CLUSTER/$1/run/$2.lock" true; }
unsupervised() { ! supervised "$1" "$2"; }

log_path() {
  need_service "$1" "$2"
  printf '%s\n' "$CLUSTER/$1/logs/$2.log"
}

# die_with_log SPACE SERVICE TEXT: shows the end of the guilty log.
die_with_log() {
  local log=$CLUSTER/$1/logs/$2.log
  tail -n 25 "$log" >&2 2>/dev/null || true
  die "$3; the log is $log"
}
