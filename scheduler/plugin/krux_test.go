package plugin

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestPodsOfOthersAreLeftAlone(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	pod, state := podOf("p", "cpu=1"), framework.NewCycleState()
	if _, status := f.k.PreFilter(f.ctx, state, pod, nil); !status.IsSkip() {
		t.Errorf("PreFilter: %v", status)
	}
	if status := f.k.PreScore(f.ctx, state, pod, nil); !status.IsSkip() {
		t.Errorf("PreScore: %v", status)
	}
	if status := f.k.Reserve(f.ctx, state, pod, "n"); !status.IsSuccess() {
		t.Errorf("Reserve: %v", status)
	}
	f.k.Unreserve(f.ctx, state, pod, "n")
	if status := f.k.Bind(f.ctx, state, pod, "n"); !status.IsSkip() {
		t.Errorf("Bind: %v", status)
	}
	if fragments, status := f.k.SignPod(f.ctx, pod); len(fragments) != 0 || !status.IsSuccess() {
		t.Errorf("SignPod: %v %v", fragments, status)
	}
}

func TestWrongRequestIsRefusedWithItsSentence(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	f.expect(f.refused(podOf("p", "gpu=1 gpucores=101"), "n"), "krux: container \"c0\": krux.io/gpucores is 101")
}

func TestGrantNamesGPUsAndNumbers(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000, 2000}})
	pod := annotated(podOf("p", "gpu=2 gpumem-percentage=50 gpucores=20", "cpu=1", "gpu=1 gpumem=300"),
		annotationPolicy, "fixed", annotationPriority, "latency")
	pod.Spec.Containers[2].Resources.Limits[resourceCores] = resource.MustParse("10")
	f.place(pod, "n")
	g := f.grantOf(pod)
	if g.PodUID != string(pod.UID) || g.Node != "n" || g.Generation == 0 {
		t.Errorf("head: %+v", g)
	}
	if len(g.Containers) != 2 || len(g.Containers["c0"]) != 2 || len(g.Containers["c2"]) != 1 {
		t.Fatalf("containers: %+v", g.Containers)
	}
	memory := map[string]uint64{}
	for _, gpu := range g.Containers["c0"] {
		memory[gpu.UUID] = gpu.MemoryMiB
		if gpu.Cores != 20 || gpu.Policy != "fixed" || gpu.Priority != "latency" {
			t.Errorf("GPU: %+v", gpu)
		}
	}
	if memory[uuidOf(0)] != 500 || memory[uuidOf(1)] != 1000 {
		t.Errorf("memory: %v", memory)
	}
}

// Three pods of half a card at once: exactly two are placed, each time.
func TestEqualPodsAtOnceAreNeverOvercommitted(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {24576}})
	f.place(podOf("a", "gpu=1 gpumem=12288"), "n")
	f.place(podOf("b", "gpu=1 gpumem=12288"), "n")
	f.expect(f.refused(podOf("c", "gpu=1 gpumem=12288"), "n"), "12288 MiB short on the best GPU")
}

// Four cards of 23 GiB take five pods of 10 GiB.
func TestFifthPodFindsAnEmptierCard(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {23552, 23552, 23552, 23552}})
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		f.place(podOf(name, "gpu=1 gpumem=10240"), "n")
	}
	f.refused(podOf("i", "gpu=1 gpumem=10240"), "n")
}

func TestShareIsKeptFromReserveToAnnotationAndOverRestart(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	pod := podOf("a", "gpu=1 gpumem=600")
	f.place(pod, "n")
	f.expect(f.refused(podOf("b", "gpu=1 gpumem=600"), "n"), "200 MiB short") // by the ledger
	shown := f.bound(pod)
	f.show(shown)
	f.k.podChanged(pod, shown)
	f.expect(f.refused(podOf("b", "gpu=1 gpumem=600"), "n"), "200 MiB short")
	f.restart()
	f.expect(f.refused(podOf("b", "gpu=1 gpumem=600"), "n"), "200 MiB short") // by the annotation
	f.forget(shown)
	f.k.podGone(shown)
	f.place(podOf("b", "gpu=1 gpumem=600"), "n")
}

func TestGrantThatIsNotThePodsCountsNothing(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}, "m": {1000}})
	pod := podOf("a", "gpu=1 gpumem=600")
	f.place(pod, "n")
	stolen := f.bound(pod)
	f.forget(pod)
	f.restart()
	stolen.UID = "another"
	f.show(stolen)
	elsewhere := f.bound(f.placed("x", "gpu=1 gpumem=600", "m"))
	f.restart()
	f.forget(elsewhere)
	elsewhere.Spec.NodeName = "n"
	f.show(elsewhere)
	f.place(podOf("b", "gpu=1 gpumem=1000"), "n")
	if len(f.recorder.notes) != 2 {
		t.Fatalf("events: %q", f.recorder.notes)
	}
	f.expect(f.recorder.notes[0]+f.recorder.notes[1], "is for pod UID")
	f.expect(f.recorder.notes[0]+f.recorder.notes[1], "is for node")
}

func (f *fixture) placed(name, text, node string) *v1.Pod {
	pod := podOf(name, text)
	f.place(pod, node)
	return pod
}

func TestOverlapQuarantinesTheGPUWithOneEvent(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	a, b := podOf("a", "gpu=1 gpumem=600"), podOf("b", "gpu=1 gpumem=600")
	f.place(a, "n")
	shownA := f.bound(a)
	f.forget(a)
	f.restart()
	f.place(b, "n")
	f.show(shownA) // another scheduler had placed it
	f.expect(f.refused(podOf("c", "gpu=1 gpumem=1"), "n"), "over-committed")
	f.refused(podOf("c", "gpu=1 gpumem=1"), "n")
	if len(f.recorder.notes) != 1 {
		t.Fatalf("events: %q", f.recorder.notes)
	}
	f.expect(f.recorder.notes[0], "granted 1200 of 1000 MiB")
	f.forget(shownA)
	f.place(podOf("c", "gpu=1 gpumem=1"), "n")
}

func TestUnreserveIsIdempotentAndBoundToItsReserve(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	pod := podOf("a", "gpu=1 gpumem=600")
	f.k.Unreserve(f.ctx, framework.NewCycleState(), pod, "n") // without Reserve
	first := f.place(pod, "n")
	f.k.Unreserve(f.ctx, first, pod, "n")
	f.k.Unreserve(f.ctx, first, pod, "n")
	f.forget(pod)
	if f.k.ledger.get(pod.UID) != nil {
		t.Fatal("entry is left")
	}
	f.place(pod, "n")
	f.k.Unreserve(f.ctx, first, pod, "n") // late, of the earlier cycle
	if f.k.ledger.get(pod.UID) == nil {
		t.Fatal("a late Unreserve took the newer reservation")
	}
}

func TestReserveAgainReplaces(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	pod := podOf("a", "gpu=1 gpumem=600")
	f.place(pod, "n")
	f.forget(pod)
	f.place(pod, "n")
	f.place(podOf("b", "gpu=1 gpumem=400"), "n")
}

// Members of a pod group are reserved one after another on one snapshot.
func TestReserveSeesPodsThatTheSnapshotLacks(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	a, b := podOf("a", "gpu=1 gpumem=600"), podOf("b", "gpu=1 gpumem=600")
	f.place(a, "n")
	f.forget(a)
	_, status := f.tryPlace(b, "n")
	if status.Code() != fwk.Error {
		t.Fatalf("want an error, which is tried again, got %v", status)
	}
	f.expect(status.Message(), "200 MiB short")
}

func TestPreemptionIsCountedFromTheNodeInfoAtHand(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	victim := f.placed("victim", "gpu=1 gpumem=800", "n")
	pod, state := podOf("p", "gpu=1 gpumem=500"), framework.NewCycleState()
	f.k.PreFilter(f.ctx, state, pod, nil)
	if status := f.k.Filter(f.ctx, state, pod, f.infos["n"]); status.Code() != fwk.Unschedulable {
		t.Fatalf("with the victim: %v", status)
	}
	clone := f.infos["n"].Snapshot()
	if err := clone.RemovePod(klog.Background(), victim); err != nil {
		t.Fatal(err)
	}
	if status := f.k.Filter(f.ctx, state, pod, clone); !status.IsSuccess() {
		t.Fatalf("without the victim: %v", status)
	}
}

func TestPreemptionIsNotTriedWhereItCannotHelp(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	for text, part := range map[string]string{
		"gpu=1 gpumem=2000": "whose largest GPU has 1000 MiB, 2000 MiB",
		"gpu=2 gpumem=1":    "with 1 healthy GPU(s), a container asks for 2",
	} {
		_, status := f.tryPlace(podOf("p", text), "n")
		if status.Code() != fwk.UnschedulableAndUnresolvable {
			t.Errorf("%s: %v", text, status)
		}
		f.expect(status.Message(), part)
	}
}

func TestNomineesKeepTheirRoom(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	nominee := podOf("nominee", "gpu=1 gpumem=700")
	clone := f.infos["n"].Snapshot()
	clone.AddPodInfo(podInfo(nominee))
	state, pod := framework.NewCycleState(), podOf("p", "gpu=1 gpumem=500")
	f.k.PreFilter(f.ctx, state, pod, nil)
	f.expect(f.k.Filter(f.ctx, state, pod, clone).Message(), "200 MiB short")
	f.nominated = []*v1.Pod{nominee}
	if status := f.k.Reserve(f.ctx, state, pod, "n"); status.IsSuccess() {
		t.Error("Reserve took the nominee's room")
	}
	f.place(podOf("small", "gpu=1 gpumem=300"), "n")
	// The nominee itself is not held up by its own nomination.
	f.place(nominee, "n")
}

func TestNomineeThatStillWaitsKeepsOthersOut(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	f.place(podOf("victim", "gpu=1 gpumem=600"), "n")
	clone := f.infos["n"].Snapshot()
	clone.AddPodInfo(podInfo(podOf("nominee", "gpu=1 gpumem=700")))
	state, pod := framework.NewCycleState(), podOf("p", "gpu=1 gpumem=100")
	f.k.PreFilter(f.ctx, state, pod, nil)
	f.expect(f.k.Filter(f.ctx, state, pod, clone).Message(), "is kept for a pod that preempted")
}

func TestNodesThatCannotServe(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	f.addNode("plain", 0)
	f.addNode("unregistered", 0)
	f.setGPUs("unregistered", 1000)
	f.expect(f.refused(podOf("p", "gpu=1"), "plain"), "without Krux GPUs")
	f.expect(f.refused(podOf("p", "gpu=1"), "unregistered"), "device plugin is not registered")
	f.k.inventory.synced.Store(false)
	f.expect(f.refused(podOf("p", "gpu=1"), "n"), "have not been read yet")
}

// The scheduler filters a bound pod again when its CPU or memory is resized.
func TestBoundPodFitsWhereItIs(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	pod := f.bound(f.placed("a", "gpu=1 gpumem=600", "n"))
	f.show(pod)
	state := framework.NewCycleState()
	if _, status := f.k.PreFilter(f.ctx, state, pod, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := f.k.Filter(f.ctx, state, pod, f.infos["n"]); !status.IsSuccess() {
		t.Error(status)
	}
}

func TestUnhealthyGPUTakesNobody(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	f.k.inventory.set("n", []nodeGPU{{uuid: uuidOf(0), memoryMiB: 1000}})
	f.expect(f.refused(podOf("p", "gpu=1"), "n"), "without a healthy GPU")
}

func TestSlotsOfAGPUAreBounded(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	f.addNode("n", 2)
	f.place(podOf("a", "gpu=1 gpumem=1"), "n")
	f.place(podOf("b", "gpu=1 gpumem=1"), "n")
	f.expect(f.refused(podOf("c", "gpu=1 gpumem=1"), "n"), "without a free slot")
}

func TestBindingCarriesGrantAndUID(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	pod := podOf("a", "gpu=1 gpumem=600")
	if err := f.client.Tracker().Add(pod); err != nil {
		t.Fatal(err)
	}
	state := f.place(pod, "n")
	if status := f.k.Bind(f.ctx, state, pod, "n"); !status.IsSuccess() {
		t.Fatal(status)
	}
	var bindings []*v1.Binding
	for _, action := range f.client.Actions() {
		if create, ok := action.(clienttesting.CreateAction); ok && action.GetSubresource() == "binding" {
			bindings = append(bindings, create.GetObject().(*v1.Binding))
		}
	}
	if len(bindings) != 1 {
		t.Fatalf("%d bindings", len(bindings))
	}
	b := bindings[0]
	if b.UID != pod.UID || b.Target.Name != "n" || b.Annotations[annotationGrant] != f.k.ledger.get(pod.UID).grant {
		t.Errorf("binding: %+v", b)
	}
}

func TestBindWithoutReservationFails(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000}})
	if status := f.k.Bind(f.ctx, framework.NewCycleState(), podOf("a", "gpu=1"), "n"); status.Code() != fwk.Error {
		t.Errorf("got %v", status)
	}
}

// The answer to a Binding is lost: what the API server has decides.
func TestLostAnswerOfABinding(t *testing.T) {
	for _, stored := range []bool{true, false} {
		f := newFixture(t, map[string][]uint64{"n": {1000}})
		pod := podOf("a", "gpu=1 gpumem=600")
		state := f.place(pod, "n")
		now := pod.DeepCopy()
		if stored {
			now = f.bound(pod)
		}
		if err := f.client.Tracker().Add(now); err != nil {
			t.Fatal(err)
		}
		f.client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("connection lost")
		})
		if status := f.k.Bind(f.ctx, state, pod, "n"); status.IsSuccess() != stored {
			t.Errorf("stored %v: %v", stored, status)
		}
	}
}

func TestTheBestNodeAloneHasTheHighestScore(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"loose": {1000}, "tight": {500}, "also": {1000}})
	pod, state := podOf("p", "gpu=1 gpumem=500 gpucores=50"), framework.NewCycleState()
	f.k.PreFilter(f.ctx, state, pod, nil)
	var scores fwk.NodeScoreList
	for _, node := range []string{"loose", "tight", "also"} {
		score, status := f.k.Score(f.ctx, state, pod, f.infos[node])
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		scores = append(scores, fwk.NodeScore{Name: node, Score: score})
	}
	f.k.NormalizeScore(f.ctx, state, pod, scores)
	for i, want := range []int64{0, 100, 0} {
		if scores[i].Score != want {
			t.Errorf("%s: %d, want %d", scores[i].Name, scores[i].Score, want)
		}
	}
	alone := fwk.NodeScoreList{{Name: "n", Score: 7}}
	f.k.NormalizeScore(f.ctx, state, pod, alone)
	if alone[0].Score != fwk.MaxNodeScore {
		t.Errorf("alone: %d", alone[0].Score)
	}
}

func TestOnlyKruxPodsLeavingIsOfInterest(t *testing.T) {
	for text, want := range map[string]fwk.QueueingHint{"cpu=1": fwk.QueueSkip, "gpu=1": fwk.Queue} {
		got, err := hintPodGone(klog.Background(), nil, podOf("p", text), nil)
		if err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
}

func TestSignPodKeepsKruxPodsOutOfBatches(t *testing.T) {
	f := newFixture(t, nil)
	if _, status := f.k.SignPod(f.ctx, podOf("p", "gpu=1")); status.Code() != fwk.Unschedulable {
		t.Errorf("got %v", status)
	}
}
