# Without the RuntimeClass plain runc would start the container without its limits: the gate refuses.
source "$(dirname "$0")/../lib.sh"
without_webhook
pod no-class class=- gpumem=1024 gpucores=10
eventually 60 "no event names the RuntimeClass" described no-class runtimeClassName
phase_is no-class Pending || fail "the pod is $(phase no-class), it should wait"
