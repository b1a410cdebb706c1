package plugin

import (
	"cmp"
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreFilter looks at every node, and hands the framework only the few best that
// the pod can have: a pod that asks for a GPU then costs no more than a plain
// one, and gets the best node of all and not of a sample.
//
// Nodes that are left out count as beyond help for kube-scheduler, and
// preemption in the same try would evict pods from the few that were named. So:
// a pod is narrowed only when it asks for nothing that a look at one node cannot
// answer (isSimple); to nodes that pass the same tests as in the stock plugins;
// when there is none, not at all; and when other plugins still refuse all of
// the few, PostFilter ends that try without preemption, and the next one is wide.

// narrowTo is how many nodes are handed on. More than one, because some tests
// are the framework's alone (nominees, other pods' anti-affinity).
const narrowTo = 4

// candidate is a node that fits as far as the GPUs go.
type candidate struct {
	info  fwk.NodeInfo
	score int64
}

// narrow gives the best nodes, or nil: no opinion.
func (k *Krux) narrow(ctx context.Context, state fwk.CycleState, pod *v1.Pod, r *request, nodes []fwk.NodeInfo) sets.Set[string] {
	if state.IsPodGroupSchedulingCycle() || pod.Status.NominatedNodeName != "" || pod.Spec.NodeName != "" ||
		!isSimple(pod) || k.wide.take(pod.UID) {
		return nil
	}
	candidates := make([]candidate, 0, len(nodes))
	for _, info := range nodes {
		if a := k.answerFor(r, info); a.code == fwk.Success {
			candidates = append(candidates, candidate{info, a.score})
		}
	}
	return firstThatPass(candidates, newStatics(ctx, pod))
}

// firstThatPass takes candidates from the best on; equals go by name.
func firstThatPass(candidates []candidate, s *statics) sets.Set[string] {
	better := func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.info.Node().Name, b.info.Node().Name))
	}
	found := sets.New[string]()
	// Nearly always the first few pass: a few passes beat sorting everything.
	const passes = 2 * narrowTo
	for range passes {
		if len(candidates) == 0 || len(found) == narrowTo {
			return found
		}
		best := 0
		for i := range candidates {
			if better(candidates[i], candidates[best]) < 0 {
				best = i
			}
		}
		if s.pass(candidates[best].info) {
			found.Insert(candidates[best].info.Node().Name)
		}
		candidates[best] = candidates[len(candidates)-1]
		candidates = candidates[:len(candidates)-1]
	}
	slices.SortFunc(candidates, better)
	for i := range candidates {
		if len(found) == narrowTo {
			break
		}
		if s.pass(candidates[i].info) {
			found.Insert(candidates[i].info.Node().Name)
		}
	}
	return found
}

// isSimple: whether a node serves the pod can be seen from that node alone.
// Pods with preferences of their own are not narrowed either: the preferred
// node may be none of the few.
func isSimple(pod *v1.Pod) bool {
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil || a.PodAntiAffinity != nil {
			return false
		}
		if a.NodeAffinity != nil && len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 {
			return false
		}
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 || len(pod.Spec.ResourceClaims) > 0 || pod.Spec.Resources != nil {
		return false
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.ConfigMap == nil && v.Secret == nil && v.EmptyDir == nil && v.DownwardAPI == nil && v.Projected == nil && v.HostPath == nil {
			return false
		}
	}
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort != 0 {
				return false
			}
		}
	}
	return true
}

// statics are the tests of the stock plugins that look at the node alone:
// NodeUnschedulable, TaintToleration, NodeAffinity and NodeResourcesFit. To be
// too strict here costs a choice, to be too lax a second try.
type statics struct {
	logger       klog.Logger
	pod          *v1.Pod
	affinity     nodeaffinity.RequiredNodeAffinity
	toleratesOff bool
	asks         v1.ResourceList
}

func newStatics(ctx context.Context, pod *v1.Pod) *statics {
	logger := klog.FromContext(ctx)
	off := &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	return &statics{
		logger:       logger,
		pod:          pod,
		affinity:     nodeaffinity.GetRequiredNodeAffinity(pod),
		toleratesOff: corev1helpers.TolerationsTolerateTaint(logger, pod.Spec.Tolerations, off, true),
		asks:         hostRequests(pod),
	}
}

func (s *statics) pass(info fwk.NodeInfo) bool {
	node := info.Node()
	if node.Spec.Unschedulable && !s.toleratesOff {
		return false
	}
	if match, err := s.affinity.Match(node); err != nil || !match {
		return false
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(s.logger, node.Spec.Taints, s.pod.Spec.Tolerations,
		func(t *v1.Taint) bool {
			return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
		}, true)
	return !untolerated && s.hasRoom(info)
}

func (s *statics) hasRoom(info fwk.NodeInfo) bool {
	room, used := info.GetAllocatable(), info.GetRequested()
	if len(info.GetPods())+1 > room.GetAllowedPodNumber() {
		return false
	}
	for name, asked := range s.asks {
		var free int64
		wanted := asked.Value()
		switch name {
		case v1.ResourceCPU:
			wanted, free = asked.MilliValue(), room.GetMilliCPU()-used.GetMilliCPU()
		case v1.ResourceMemory:
			free = room.GetMemory() - used.GetMemory()
		case v1.ResourceEphemeralStorage:
			free = room.GetEphemeralStorage() - used.GetEphemeralStorage()
		default:
			free = room.GetScalarResources()[name] - used.GetScalarResources()[name]
		}
		if wanted > 0 && wanted > free {
			return false
		}
	}
	return true
}

// marks is a set of pods. Any goroutine may use it.
type marks struct {
	mu   sync.Mutex // guards pods
	pods map[types.UID]bool
}

func (m *marks) put(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods == nil {
		m.pods = map[types.UID]bool{}
	}
	m.pods[uid] = true
}

// take removes the mark and says whether it was there.
func (m *marks) take(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	had := m.pods[uid]
	delete(m.pods, uid)
	return had
}

// PostFilter comes before DefaultPreemption. After a narrowed try it keeps that
// from evicting anybody and has the pod tried again over all nodes.
func (k *Krux) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	r := requestOf(state)
	if r == nil || !r.narrowed {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	k.wide.put(pod.UID)
	k.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "krux: the best nodes were refused, all are tried next")
}
