# Three containers (GPU, none, GPU): each GPU container has its own limits, the middle one nothing.
source "$(dirname "$0")/../lib.sh"
kubectl apply -f - <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: three, labels: {krux-test: "yes"}}
spec:
  runtimeClassName: krux
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
    - name: one
      image: krux.io/demo:1
      imagePullPolicy: Never
      command: [sh, -c, "krux-demo facts; sleep 3600"]
      resources: {limits: {krux.io/gpu: 1, krux.io/gpumem-percentage: 50, krux.io/gpucores: 10}}
    - name: two
      image: krux.io/demo:1
      imagePullPolicy: Never
      command: [sh, -c, "ls /run/krux /usr/lib/krux 2>/dev/null; echo end-of-list; sleep 3600"]
    - name: three
      image: krux.io/demo:1
      imagePullPolicy: Never
      command: [sh, -c, "krux-demo facts; sleep 3600"]
      resources: {limits: {krux.io/gpu: 1, krux.io/gpumem: 2000, krux.io/gpucores: 10}}
YAML
facts_in() { kubectl logs three -c "$1" 2>/dev/null | grep total_mib; }
eventually 60 "container one found no GPU" facts_in one
eventually 60 "container three found no GPU" facts_in three
[[ $(facts_in one | fact total_mib) == $((143771 / 2)) ]] || fail "container one: $(facts_in one)"
[[ $(facts_in three | fact total_mib) == 2000 ]] || fail "container three: $(facts_in three)"
[[ $(kubectl logs three -c two) == end-of-list ]] || fail "container two has $(kubectl logs three -c two)"
