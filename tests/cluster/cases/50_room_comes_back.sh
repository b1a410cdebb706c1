# What a deleted pod held is free for the next one: for the scheduler within 2 s.
source "$(dirname "$0")/../lib.sh"
pod first-a gpumem=140000 gpucores=90
pod first-b gpumem=140000 gpucores=90
running first-a
running first-b
pod next gpumem=140000 gpucores=90
eventually 20 "the third pod is not told what is missing" described next "MiB and 80 percent of GPU time short on the best GPU"
kubectl delete pod first-a --wait=true >/dev/null
freed=$(date +%s)
eventually 10 "the next pod was not scheduled" described next "Successfully assigned"
(($(date +%s) - freed <= 3)) || fail "the scheduler took $(($(date +%s) - freed)) s to see the room"
running next
