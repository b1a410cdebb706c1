# shellcheck shell=bash
# Sourced by the scripts that build and run the cluster: progress.sh, the folders of this
# checkout (all relative to it, so that a bundle may lie anywhere), and a few checks.

# shellcheck source=progress.sh
. "$(dirname "${BASH_SOURCE[0]}")/progress.sh"
# shellcheck source=../../cluster/versions.env
. "$KRUX_ROOT/cluster/versions.env"

# Those who source this use them.
# shellcheck disable=SC2034
{
  KRUX_BUILD=$KRUX_ROOT/build
  KUBE_BIN=$KRUX_BUILD/k8s/bin
  RELEASE=$KRUX_BUILD/release
  IMAGES=$KRUX_BUILD/images
}

# need_command NAME HINT: dies with HINT when NAME is not on the PATH.
need_command() {
  command -v "$1" >/dev/null || die "'$1' is missing: $2"
}

# need_file PATH HINT
need_file() {
  [[ -e $1 ]] || die "${1#"$KRUX_ROOT"/} is missing: $2"
}

need_root() {
  ((EUID == 0)) || die "this makes namespaces, mounts and cgroups: run it as root"
}

# hash_files PATH...: one hash over names and contents of all files below the paths that exist.
hash_files() {
  { find "$@" -type f -print0 2>/dev/null || true; } |
    LC_ALL=C sort -z | xargs -0 -r sha256sum | sha256sum | cut -c1-64
}

# wait_until SECONDS COMMAND...: tries ten times a second until COMMAND succeeds.
wait_until() {
  local deadline=$(($(date +%s) + $1))
  shift
  until "$@"; do
    (($(date +%s) < deadline)) || return 1
    sleep 0.1
  done
}
