package plugin

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func uuidOf(n int) string { return fmt.Sprintf("GPU-%08x-0000-0000-0000-000000000000", n) }

// cluster plays kube-scheduler's part: nodes, pods in its cache, nominees.
type cluster struct {
	fwk.Handle // nil: a method that is not below must not be called
	client     *fake.Clientset
	factory    informers.SharedInformerFactory
	infos      map[string]*framework.NodeInfo
	nominated  []*v1.Pod
	recorder   *recorder
	activated  chan map[string]*v1.Pod
}

func (c *cluster) ClientSet() clientset.Interface                         { return c.client }
func (c *cluster) SharedInformerFactory() informers.SharedInformerFactory { return c.factory }
func (c *cluster) SnapshotSharedLister() fwk.SharedLister                 { return lister{c: c} }
func (c *cluster) EventRecorder() events.EventRecorderLogger              { return c.recorder }
func (c *cluster) APICacher() fwk.APICacher                               { return nil }
func (c *cluster) Activate(_ klog.Logger, pods map[string]*v1.Pod)        { c.activated <- pods }
func (c *cluster) NominatedPodsForNode(string) []fwk.PodInfo {
	var infos []fwk.PodInfo
	for _, pod := range c.nominated {
		infos = append(infos, podInfo(pod))
	}
	return infos
}

type lister struct {
	fwk.SharedLister
	fwk.NodeInfoLister
	c *cluster
}

func (l lister) NodeInfos() fwk.NodeInfoLister { return l }
func (l lister) Get(name string) (fwk.NodeInfo, error) {
	info, ok := l.c.infos[name]
	if !ok {
		return nil, fmt.Errorf("node %q not found", name)
	}
	return info, nil
}

type recorder struct {
	events.EventRecorderLogger
	notes []string
}

func (r *recorder) Eventf(_, _ runtime.Object, _, reason, _, note string, args ...any) {
	r.notes = append(r.notes, reason+": "+fmt.Sprintf(note, args...))
}

func podInfo(pod *v1.Pod) *framework.PodInfo {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		panic(err)
	}
	return info
}

// fixture is a plugin on nodes whose GPUs are given in MiB: {"n1": {1000, 1000}}.
type fixture struct {
	testing.TB
	*cluster
	k   *Krux
	ctx context.Context
}

func newFixture(t testing.TB, nodes map[string][]uint64) *fixture {
	client := fake.NewClientset()
	c := &cluster{
		client:    client,
		factory:   informers.NewSharedInformerFactory(client, 0),
		infos:     map[string]*framework.NodeInfo{},
		recorder:  &recorder{},
		activated: make(chan map[string]*v1.Pod, 16),
	}
	f := &fixture{TB: t, cluster: c, ctx: t.Context()}
	f.restart()
	for name, gpus := range nodes {
		f.addNode(name, 16*len(gpus))
		f.setGPUs(name, gpus...)
	}
	return f
}

// binpack is a policy whose choices are easy to foresee.
var binpack, _ = policyID("binpack")

// restart gives a new plugin that knows nothing but the inventory.
func (f *fixture) restart() {
	old := f.k
	k, err := newKrux(f.ctx, f.cluster, policies{binpack, binpack})
	if err != nil {
		f.Fatal(err)
	}
	k.inventory.synced.Store(true)
	if old != nil {
		k.inventory.models = old.inventory.models
		old.inventory.nodes.Range(func(name, slot any) bool {
			k.inventory.set(name.(string), slot.(*nodeSlot).inventory.Load().gpus)
			return true
		})
	}
	f.k = k
}

func (f *fixture) addNode(name string, slots int) {
	node := &v1.Node{}
	node.Name = name
	node.Status.Allocatable = v1.ResourceList{
		resourceGPU: resource.MustParse(fmt.Sprint(slots)), v1.ResourcePods: resource.MustParse("110"),
	}
	info := framework.NewNodeInfo()
	info.SetNode(node)
	f.infos[name] = info
}

func (f *fixture) setGPUs(node string, memory ...uint64) {
	var gpus []nodeGPU
	for i, mib := range memory {
		gpus = append(gpus, nodeGPU{uuid: uuidOf(i), model: "test", memoryMiB: mib, healthy: true})
	}
	f.k.inventory.set(node, gpus)
}

// tryPlace is a scheduling cycle on one node up to Reserve; the pod is in the
// cache afterwards, as kube-scheduler assumes it before Reserve.
func (f *fixture) tryPlace(pod *v1.Pod, node string) (*framework.CycleState, *fwk.Status) {
	state := framework.NewCycleState()
	if _, status := f.k.PreFilter(f.ctx, state, pod, nil); !status.IsSuccess() {
		return state, status
	}
	if status := f.k.Filter(f.ctx, state, pod, f.infos[node]); !status.IsSuccess() {
		return state, status
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	if status := f.k.Reserve(f.ctx, state, assumed, node); !status.IsSuccess() {
		return state, status
	}
	f.infos[node].AddPodInfo(podInfo(assumed))
	return state, nil
}

func (f *fixture) place(pod *v1.Pod, node string) *framework.CycleState {
	f.Helper()
	state, status := f.tryPlace(pod, node)
	if !status.IsSuccess() {
		f.Fatalf("pod %s on %s: %s", pod.Name, node, status.Message())
	}
	return state
}

// refused gives the reasons of a pod that must not fit.
func (f *fixture) refused(pod *v1.Pod, node string) string {
	f.Helper()
	_, status := f.tryPlace(pod, node)
	if status.IsSuccess() {
		f.Fatalf("pod %s on %s fits, but must not", pod.Name, node)
	}
	return status.Message()
}

func (f *fixture) expect(text, part string) {
	f.Helper()
	if !strings.Contains(text, part) {
		f.Errorf("got %q, want a text with %q", text, part)
	}
}

func (f *fixture) grantOf(pod *v1.Pod) *grant {
	f.Helper()
	e := f.k.ledger.get(pod.UID)
	if e == nil {
		f.Fatalf("pod %s has no entry in the ledger", pod.Name)
	}
	g, err := parseGrant(e.grant)
	if err != nil {
		f.Fatal(err)
	}
	return g
}

// bound is the pod as the API server shows it after the Binding.
func (f *fixture) bound(pod *v1.Pod) *v1.Pod {
	e := f.k.ledger.get(pod.UID)
	shown := pod.DeepCopy()
	shown.Spec.NodeName = e.node
	shown.Annotations = map[string]string{annotationGrant: e.grant}
	return shown
}

// show replaces the pod in the cache by what the API server has.
func (f *fixture) show(pod *v1.Pod) {
	f.forget(pod)
	f.infos[pod.Spec.NodeName].AddPodInfo(podInfo(pod))
}

func (f *fixture) forget(pod *v1.Pod) {
	for _, info := range f.infos {
		_ = info.RemovePod(klog.Background(), pod)
	}
}
