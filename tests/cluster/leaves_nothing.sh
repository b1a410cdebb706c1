#!/usr/bin/env bash
# scripts/cluster down leaves nothing behind: the machine before up and after down, compared. It
# takes a cluster folder of its own, so another cluster of this machine may be up meanwhile.
set -euo pipefail
source "$(dirname "$0")/../../scripts/lib/progress.sh"

work=$(mktemp -d "$KRUX_ROOT/build/leaves-nothing.XXXXXX")
export KRUX_CLUSTER_DIR=$work/cluster
cluster() { "$KRUX_ROOT/scripts/cluster" "$@"; }
end() {
  cluster down >/dev/null || true
  rm -rf "$work"
}
trap end EXIT

# What Kubernetes, containerd and Krux write to by default, and settings that a kubelet changes.
PLACES=(/etc/cni /etc/containerd /etc/kubernetes /etc/krux /opt/cni /opt/containerd /run/containerd /run/krux
  /run/krux-sim /run/netns /run/nri /run/runc /usr/libexec/kubernetes /var/lib/cni /var/lib/containerd
  /var/lib/kubelet /var/lib/krux /var/log/containers /var/log/pods "$HOME/.kube")
SETTINGS=(vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys
  kernel/keys/root_maxbytes net/ipv4/ip_forward)

# The state of the machine as far as a cluster could change it.
machine() {
  local place setting
  sed 's/^[0-9]* [0-9]* [0-9:]* /mount /; s/ \(shared\|master\):[0-9]*//g' /proc/self/mountinfo
  printf 'interface %s\n' /sys/class/net/*
  # Named after the cluster's folder; another cluster's pods come and go meanwhile.
  find /sys/fs/cgroup -type d -path "*krux-$(printf '%s' "$KRUX_CLUSTER_DIR" | sha256sum | cut -c1-8)*" -printf 'cgroup %p\n'
  awk '$8 ~ /krux|containerd|kubelet|cni/ { print "socket", $8 }' /proc/net/unix
  for place in "${PLACES[@]}"; do [[ ! -e $place ]] || printf 'place %s\n' "$place"; done
  for setting in "${SETTINGS[@]}"; do printf 'setting %s %s\n' "$setting" "$(cat "/proc/sys/$setting" 2>/dev/null)"; done
}

# processes: those whose command line or environment names this cluster's folder.
processes() {
  local file
  for file in /proc/[0-9]*/cmdline; do
    if tr '\0' ' ' 2>/dev/null <"$file" | grep -qF "$KRUX_CLUSTER_DIR"; then
      printf 'process %s: %s\n' "$(dirname "$file")" "$(tr '\0' ' ' <"$file")"
    fi
  done
}

machine | sort >"$work/before"
touch "$work/began"
cluster up --gpu "${1:-none}"
cluster kubectl run plain --image=krux.io/test:1 --image-pull-policy=Never --restart=Never -- sleep 3600
cluster kubectl wait --for=condition=Ready pod/plain --timeout=60s
[[ $(cluster kubectl exec plain -- echo inside) == inside ]] || die "exec into the pod does not work"
machine | grep '^cgroup' >/dev/null || die "the cluster has no cgroups: this test looks at the wrong ones"
processes | grep kubelet >/dev/null || die "the kubelet is not among the processes: this test looks at the wrong ones"
cluster down
machine | sort >"$work/after"
processes >"$work/processes"
# Files of the system that are newer than the start; what Debian's own timers touch is not ours.
find /etc /opt /usr /var/lib /run -xdev -newer "$work/began" -type f ! -path '/var/lib/dpkg/*' ! -path '/var/lib/apt/*' \
  ! -path '/run/systemd/*' ! -path '/run/log/*' ! -path '/var/lib/systemd/*' >"$work/files" 2>/dev/null || true
diff "$work/before" "$work/after" >&2 || die "the machine is not as it was (before <, after >)"
[[ ! -s $work/processes ]] || die "processes are left: $(<"$work/processes")"
[[ ! -s $work/files ]] || die "files were written outside the build folder: $(<"$work/files")"
step "nothing is left"
