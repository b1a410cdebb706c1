# shellcheck shell=bash
# Sourced by each case. A case is a script of its own: exit 0 = pass; fail TEXT says why not.

source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/progress.sh"

NODE=${NODE:-node-1}

kubectl() { "$KRUX_ROOT/scripts/cluster" kubectl "$@"; }
cluster() { "$KRUX_ROOT/scripts/cluster" "$@"; }

fail() {
  kubectl get pods,events | tail -n 60 || true
  printf 'why: %s\n' "$*"
  exit 1
}

# eventually SECONDS TEXT COMMAND...: until COMMAND is true, looking each quarter of a second.
eventually() {
  local limit=$1 text=$2
  shift 2
  local end=$((SECONDS + limit))
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || fail "$text: not within $limit s"
    sleep 0.25
  done
}

phase() { kubectl get pod "$1" -o 'jsonpath={.status.phase}' 2>/dev/null; }
phase_is() { [[ $(phase "$1") == "$2" ]]; }
# described POD TEXT: kubectl describe says it.
described() { kubectl describe pod "$1" | grep -qF -- "$2"; }
log_has() { kubectl logs "$1" 2>/dev/null | grep -qF -- "$2"; }
gone() { ! kubectl get pod "$1" >/dev/null 2>&1; }
# fact NAME: a field of the program's JSON line on standard input, without quotes.
fact() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" | head -n 1; }

# Names of all pods that this case makes begin with its own name, and go at its end.
clean() {
  kubectl delete pod -l krux-test=yes --ignore-not-found --wait=true --timeout=60s >/dev/null 2>&1 || true
}
trap clean EXIT

# unguarded: pods of this case may name vendor runtimes' variables, which are denied otherwise.
unguarded() {
  kubectl label namespace default krux.io/guard=off --overwrite
  trap 'kubectl label namespace default krux.io/guard- || true; clean' EXIT
  eventually 20 "the label krux.io/guard=off has no effect" \
    kubectl run probe --dry-run=server --image=krux.io/demo:1 --env=NVIDIA_VISIBLE_DEVICES=all
}

# without_webhook: what happens to pods that have not passed it.
without_webhook() {
  cluster stop control webhook
  kubectl delete mutatingwebhookconfiguration krux
  trap 'cluster start control webhook; clean' EXIT
  eventually 20 "the webhook is still asked" kubectl run probe --dry-run=server --image=krux.io/demo:1 \
    --overrides='{"spec":{"containers":[{"name":"probe","image":"krux.io/demo:1","resources":{"limits":{"krux.io/gpu":"1"}}}]}}'
}

# pod NAME [KEY=VALUE...]: makes a pod. gpu, gpumem, gpumem-percentage, gpucores: resources ("-" leaves
# one out); class: RuntimeClass ("-" none); policy: compute policy; env: NAME:VALUE (repeat);
# run: the shell command (default: facts, then sleep). EXTRA: another line of the spec.
pod() {
  local name=$1 entry class=krux policy="" run="krux-demo facts && sleep 3600" limits="" env=""
  shift
  local -A resource=([gpu]=1)
  for entry in "$@"; do
    local key=${entry%%=*} value=${entry#*=}
    case $key in
      class) class=$value ;;
      policy) policy=$value ;;
      run) run=$value ;;
      env) env+="        - {name: \"${value%%:*}\", value: \"${value#*:}\"}"$'\n' ;;
      *) resource[$key]=$value ;;
    esac
  done
  for entry in "${!resource[@]}"; do
    [[ ${resource[$entry]} == - ]] || limits+="krux.io/$entry: \"${resource[$entry]}\", "
  done
  kubectl apply -f - <<YAML
apiVersion: v1
kind: Pod
metadata:
  name: $name
  labels: {krux-test: "yes"}
  annotations: {$([[ -z $policy ]] || echo "krux.io/compute-policy: \"$policy\"")}
spec:
  $([[ $class == - ]] || echo "runtimeClassName: $class")
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  ${EXTRA:-}
  containers:
    - name: main
      image: krux.io/demo:1
      imagePullPolicy: Never
      command: [sh, -c, '$run']
      env:
        - {name: KRUX_TEST, value: "yes"}
$env
      resources:
        limits: {$limits}
YAML
}

# running POD: waits until its program has found its facts.
running() { eventually 60 "pod $1 did not start: $(kubectl describe pod "$1" | tail -n 5)" log_has "$1" total_mib; }
facts_of() { kubectl logs "$1" | grep total_mib | head -n 1; }
