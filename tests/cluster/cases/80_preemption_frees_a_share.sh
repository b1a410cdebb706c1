# A pod of higher priority that finds no room: the fewest pods on one card give way, the others stay, and
# a pod that could never fit evicts nobody.
source "$(dirname "$0")/../lib.sh"
kubectl apply -f - <<'YAML'
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: krux-test-high}
value: 1000
YAML
trap 'kubectl delete priorityclass krux-test-high --ignore-not-found; clean' EXIT
important() { EXTRA='priorityClassName: krux-test-high' pod "$@"; }
pod low-a gpumem-percentage=70 gpucores=10
pod low-b gpumem-percentage=80 gpucores=10
running low-a
running low-b
important never gpu=3 gpumem=100
eventually 30 "pod never has no reason" described never "a container asks for 3"
important high gpumem-percentage=50 gpucores=10
running high
left=$(kubectl get pods low-a low-b --ignore-not-found -o name | wc -l)
[[ $left == 1 ]] || fail "$left of the two low pods are left, one should have given way"
phase_is never Pending || fail "never is $(phase never)"
