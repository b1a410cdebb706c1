# While the webhook is down plain pods are created as ever, and GPU pods are refused, never let through.
source "$(dirname "$0")/../lib.sh"
cluster stop control webhook
trap 'cluster start control webhook; clean' EXIT
kubectl run plain --image=krux.io/demo:1 --image-pull-policy=Never --restart=Never --labels=krux-test=yes -- sleep 3600
kubectl wait --for=condition=Ready pod/plain --timeout=60s
if pod gpu gpumem=1000; then fail "a GPU pod was created"; fi
cluster start control webhook
eventually 30 "GPU pods are still refused" pod gpu gpumem=1000
running gpu
