# A pod as written for HAMi, with the profile on: it gets its share, and sees it.
source "$(dirname "$0")/../lib.sh"
kubectl apply -f - <<'YAML'
apiVersion: v1
kind: Pod
metadata:
  name: hami
  labels: {krux-test: "yes"}
  annotations: {hami.io/gpu-scheduler-policy: spread}
spec:
  schedulerName: hami-scheduler
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: krux.io/demo:1
      imagePullPolicy: Never
      command: [sh, -c, 'krux-demo facts && sleep 3600']
      resources:
        limits: {nvidia.com/gpu: "1", nvidia.com/gpumem: "3000", nvidia.com/gpucores: "30"}
YAML
running hami
[[ $(facts_of hami | fact total_mib) == 3000 ]] || fail "the program sees $(facts_of hami)"
