# A container of the krux handler that asks for nothing gets no device, no driver, no limiter, also
# when its image or pod says NVIDIA_VISIBLE_DEVICES=all and the device plugin is not running.
source "$(dirname "$0")/../lib.sh"
check() {
  pod "$1" gpu=- env=NVIDIA_VISIBLE_DEVICES:all \
    run='ls -d /run/krux /run/krux-sim /usr/lib/krux /dev/nvidia* 2>/dev/null; find / -xdev -name "libcuda.so*" 2>/dev/null; env | grep NVIDIA; echo end-of-list; sleep 3600'
  eventually 60 "pod $1 did not start" log_has "$1" end-of-list
  [[ $(kubectl logs "$1") == end-of-list ]] || fail "the container has: $(kubectl logs "$1")"
}
unguarded
check no-grant
cluster stop "$NODE" device-plugin
trap 'cluster start "$NODE" device-plugin; kubectl label namespace default krux.io/guard-; clean' EXIT
check no-grant-no-plugin
