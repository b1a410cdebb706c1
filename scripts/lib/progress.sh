# shellcheck shell=bash
# Sourced by the scripts: progress lines with elapsed time, and errors that say what to do.

KRUX_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
KRUX_BEGIN=${KRUX_BEGIN:-$(date +%s)}
export KRUX_ROOT KRUX_BEGIN

# step TEXT: what begins now, with minutes and seconds since the outermost script began.
step() {
  local elapsed=$(($(date +%s) - KRUX_BEGIN))
  printf '[%2d:%02d] %s\n' $((elapsed / 60)) $((elapsed % 60)) "$*"
}

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# quietly LOG COMMAND...: the command's output goes to LOG; its end is shown when it fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    die "'$*' failed; the whole output is in $log"
  fi
}

# scripts/deps puts a Go here when the machine has none.
export PATH="$KRUX_ROOT/build/deps/bin:$PATH"
