package plugin

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func (f *fixture) nodeInfos() []fwk.NodeInfo {
	var infos []fwk.NodeInfo
	for _, info := range f.infos {
		infos = append(infos, info)
	}
	return infos
}

// preFilter gives the nodes that are handed to the framework; nil: all.
func (f *fixture) preFilter(pod *v1.Pod) (sets.Set[string], *framework.CycleState) {
	f.Helper()
	state := framework.NewCycleState()
	result, status := f.k.PreFilter(f.ctx, state, pod, f.nodeInfos())
	if !status.IsSuccess() {
		f.Fatal(status)
	}
	if result.AllNodes() {
		return nil, state
	}
	return result.NodeNames, state
}

// Nodes of 1000, 1010, ... MiB: binpack likes the smallest that fits best.
func manyNodes(t *testing.T, count int) *fixture {
	nodes := map[string][]uint64{}
	for i := range count {
		nodes[fmt.Sprintf("n%02d", i)] = []uint64{uint64(1000 + 10*i)}
	}
	f := newFixture(t, nodes)
	for name := range nodes { // as totals does
		node := f.infos[name].Node().DeepCopy()
		node.Status.Allocatable[resourceMemory] = resource.MustParse("100000")
		node.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("64")
		f.infos[name].SetNode(node)
	}
	return f
}

func TestTheBestNodesAreHandedOn(t *testing.T) {
	f := manyNodes(t, 20)
	got, _ := f.preFilter(podOf("p", "gpu=1 gpumem=1050"))
	if want := sets.New("n05", "n06", "n07", "n08"); !got.Equal(want) {
		t.Errorf("got %v", sets.List(got))
	}
}

func TestNodesThatOtherPluginsWouldRefuseAreNotHandedOn(t *testing.T) {
	f := manyNodes(t, 12)
	edit := func(name string, change func(*v1.Node)) {
		node := f.infos[name].Node().DeepCopy()
		change(node)
		f.infos[name].SetNode(node)
	}
	edit("n00", func(n *v1.Node) { n.Spec.Unschedulable = true })
	edit("n01", func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}} })
	edit("n02", func(n *v1.Node) { n.Status.Allocatable[v1.ResourcePods] = resource.MustParse("0") })
	for i := 3; i < 12; i++ {
		edit(fmt.Sprintf("n%02d", i), func(n *v1.Node) {
			n.Labels = map[string]string{"zone": "a"}
			n.Status.Allocatable[v1.ResourceCPU] = resource.MustParse(fmt.Sprint(i))
		})
	}
	pod := podOf("p", "cpu=8 gpu=1 gpumem=500")
	pod.Spec.NodeSelector = map[string]string{"zone": "a"}
	got, _ := f.preFilter(pod)
	if want := sets.New("n08", "n09", "n10", "n11"); !got.Equal(want) {
		t.Errorf("got %v", sets.List(got))
	}
}

// Preemption and other plugins must see all nodes where the few cannot be known.
func TestPodsThatAreNotNarrowed(t *testing.T) {
	claim := v1.Volume{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
	for what, edit := range map[string]func(*v1.Pod){
		"affinity":  func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}} },
		"spread":    func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{}} },
		"volume":    func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{claim} },
		"port":      func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}} },
		"claims":    func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{}} },
		"nominated": func(p *v1.Pod) { p.Status.NominatedNodeName = "n01" },
		"no room":   func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits[resourceMemory] = resource.MustParse("2000") },
	} {
		f := manyNodes(t, 12)
		pod := podOf("p", "gpu=1 gpumem=500")
		edit(pod)
		if got, _ := f.preFilter(pod); got != nil {
			t.Errorf("%s: narrowed to %v", what, sets.List(got))
		}
	}
}

// All of the few are refused by others: no preemption in that try, and the next
// one is over all nodes.
func TestARefusedNarrowedTryIsFollowedByAWideOne(t *testing.T) {
	f := manyNodes(t, 12)
	pod := podOf("p", "gpu=1 gpumem=500")
	_, state := f.preFilter(pod)
	_, status := f.k.PostFilter(f.ctx, state, pod, nil)
	if status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Fatalf("preemption would run: %v", status)
	}
	if activated := <-f.activated; len(activated) != 1 {
		t.Errorf("activated: %v", activated)
	}
	got, state := f.preFilter(pod)
	if got != nil {
		t.Fatalf("the next try is narrowed to %v", sets.List(got))
	}
	if _, status := f.k.PostFilter(f.ctx, state, pod, nil); status.Code() != fwk.Unschedulable {
		t.Errorf("preemption must run after a wide try: %v", status)
	}
	if got, _ := f.preFilter(pod); got == nil {
		t.Error("the mark stays for ever")
	}
}

func TestAnswersFollowEveryChangeOfTheNode(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	pod, state := podOf("p", "gpu=1 gpumem=600"), framework.NewCycleState()
	f.k.PreFilter(f.ctx, state, pod, nil)
	fits := func(want bool) {
		t.Helper()
		if status := f.k.Filter(f.ctx, state, pod, f.infos["n"]); status.IsSuccess() != want {
			t.Fatalf("fits = %v: %s", status.IsSuccess(), status.Message())
		}
	}
	fits(true)
	other := f.placed("other", "gpu=1 gpumem=600", "n")
	fits(false)
	f.forget(other)
	fits(true)
	f.k.inventory.set("n", []nodeGPU{{uuid: uuidOf(0), memoryMiB: 1000, healthy: false}})
	fits(false)
	f.k.inventory.set("n", []nodeGPU{{uuid: uuidOf(0), memoryMiB: 1000, healthy: true, cordoned: true}})
	fits(false)
	f.setGPUs("n", 1000)
	fits(true)
	f.addNode("n", 0) // slots are gone
	fits(false)
}

// While a pod group is placed generations do not tell changes.
func TestPodGroupsAreCountedAnewEachTime(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(framework.NewCycleState())
	first, second := podOf("a", "gpu=1 gpumem=600"), podOf("b", "gpu=1 gpumem=600")
	f.k.PreFilter(f.ctx, state, second, f.nodeInfos())
	if status := f.k.Filter(f.ctx, state, second, f.infos["n"]); !status.IsSuccess() {
		t.Fatal(status)
	}
	generation := f.infos["n"].Generation
	f.place(first, "n")
	f.infos["n"].Generation = generation // as Snapshot.AssumePod does
	if status := f.k.Filter(f.ctx, state, second, f.infos["n"]); status.IsSuccess() {
		t.Error("the group's first member was not counted")
	}
}

func TestSelectionBecomesBits(t *testing.T) {
	inv := newInventory(func(string) {})
	inv.set("n", []nodeGPU{{uuid: uuidOf(0), model: "NVIDIA A100-SXM4-80GB"}, {uuid: uuidOf(1), model: "NVIDIA H100 80GB HBM3"}})
	for list, want := range map[string]uint64{"": 0, "A100": 1, "h100": 2, "A100,H100": 3, "B200": noModel, "A10": noModel} {
		if got := inv.modelBits(list); got != want {
			t.Errorf("%q: %b, want %b", list, got, want)
		}
	}
	for i := range 2 * maxModels {
		inv.set("m", []nodeGPU{{uuid: uuidOf(0), model: fmt.Sprintf("model %d", i)}})
	}
	if got := inv.modelBits("B200"); got != noModel || len(inv.models) != maxModels-1 {
		t.Errorf("%b with %d models", got, len(inv.models))
	}
}

func TestLinksNeedBothEnds(t *testing.T) {
	linked := func(uuid string, to ...any) map[string]any {
		fields := gpuFields(uuid, 1000, true)
		fields["linkedTo"] = to
		fields["numaNode"] = int64(1)
		return fields
	}
	gpus, err := parseKruxNode(kruxNode("n", linked(uuidOf(0), uuidOf(1), uuidOf(2), uuidOf(0), "x", int64(7)), linked(uuidOf(1), uuidOf(0)), linked(uuidOf(2))))
	if err != nil {
		t.Fatal(err)
	}
	var links []uint64
	for _, gpu := range gpus {
		links = append(links, gpu.links)
	}
	if !slices.Equal(links, []uint64{2, 1, 0}) || gpus[0].numa != 2 {
		t.Errorf("links %v, NUMA %d", links, gpus[0].numa)
	}
}

func unknownArgs(text string) runtime.Object { return &runtime.Unknown{Raw: []byte(text)} }

func TestArgs(t *testing.T) {
	for text, part := range map[string]string{
		`{"nodePolicy":"spread","gpuPolicy":"topology"}`: "",
		`{"apiVersion":"v1","kind":"KruxArgs"}`:          "",
		`{"nodePolicy":"topology"}`:                      "use fragmentation, binpack, spread",
		`{"gpuPolicy":"x"}`:                              "topology",
		`{"policy":"spread"}`:                            "use nodePolicy and gpuPolicy",
	} {
		_, err := parseArgs(unknownArgs(text))
		if (err == nil) != (part == "") {
			t.Errorf("%s: %v", text, err)
		} else if err != nil {
			(&fixture{TB: t}).expect(err.Error(), part)
		}
	}
	if p, err := parseArgs(nil); err != nil || p != (policies{}) {
		t.Errorf("without: %v %v", p, err)
	}
}

func TestLedgerForgetsPodsWhoseDeletionWasMissed(t *testing.T) {
	l := newLedger()
	l.put("there", &entry{node: "n"})
	l.put("gone", &entry{node: "n"})
	l.put("assumed", &entry{node: "n", assumed: true})
	if gone := l.keepOnly(map[types.UID]bool{"there": true}); gone != 1 || l.get("gone") != nil || l.get("there") == nil || l.get("assumed") == nil {
		t.Errorf("%d forgotten: %v", gone, l.pods)
	}
}
