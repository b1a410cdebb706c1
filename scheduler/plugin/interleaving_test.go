package plugin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// world is one node under random events, with the truth beside it: the grants
// that a Binding has stored.
type world struct {
	*fixture
	random  *rand.Rand
	next    int
	placed  map[string]*v1.Pod // reserved, not yet bound
	states  map[string]*framework.CycleState
	running map[string]*v1.Pod // bound, as the API server has them
}

var worldGPUs = []uint64{1000, 700, 300}

func (w *world) create() {
	w.next++
	text := fmt.Sprintf("gpu=%d gpumem=%d", 1+w.random.IntN(2), 1+w.random.IntN(500))
	if w.random.IntN(2) == 0 {
		text += fmt.Sprintf(" gpucores=%d", 10*(1+w.random.IntN(10)))
	}
	pod := podOf(fmt.Sprintf("p%d", w.next), text)
	if state, status := w.tryPlace(pod, "n"); status.IsSuccess() {
		w.placed[pod.Name], w.states[pod.Name] = pod, state
	}
}

// bind finishes a random reserved pod; the Binding may be refused, or be stored
// with its answer lost, and the event may come late.
func (w *world) bind() {
	for name, pod := range w.placed {
		delete(w.placed, name)
		shown := w.bound(pod)
		_ = w.client.Tracker().Add(pod.DeepCopy())
		fate := w.random.IntN(4)
		if fate == 0 { // refused
			w.k.Unreserve(w.ctx, w.states[name], pod, "n")
			w.forget(pod)
			return
		}
		if fate == 1 { // answer lost
			_ = w.client.Tracker().Update(v1.SchemeGroupVersion.WithResource("pods"), shown.DeepCopy(), pod.Namespace)
		}
		assumed := pod.DeepCopy()
		assumed.Spec.NodeName = "n"
		w.client.Fake.ReactionChain = nil
		w.client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			if fate == 1 {
				return true, nil, errors.New("connection lost")
			}
			return true, nil, nil
		})
		w.client.AddReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, shown, nil })
		if status := w.k.Bind(w.ctx, w.states[name], assumed, "n"); !status.IsSuccess() {
			w.Fatalf("bind: %v", status)
		}
		w.running[name] = shown
		if w.random.IntN(2) == 0 {
			w.event(shown)
		}
		return
	}
}

// event is the watch showing the pod bound.
func (w *world) event(shown *v1.Pod) {
	old := shown.DeepCopy()
	old.Annotations = nil
	w.show(shown)
	w.k.podChanged(old, shown)
}

func (w *world) remove() {
	for name, pod := range w.running {
		delete(w.running, name)
		w.forget(pod)
		w.k.podGone(pod)
		return
	}
}

// crash: reservations are lost with the process, bound pods are listed again.
func (w *world) crash() {
	for name, pod := range w.placed {
		delete(w.placed, name)
		w.forget(pod)
	}
	w.fixture.restart()
	for _, pod := range w.running {
		w.show(pod)
	}
}

func (w *world) check() {
	memory, cores := map[string]uint64{}, map[string]uint32{}
	alone, tenants := map[string]bool{}, map[string]int{}
	for _, pod := range w.running {
		g, err := parseGrant(pod.Annotations[annotationGrant])
		if err != nil {
			w.Fatal(err)
		}
		for _, gpus := range g.Containers {
			for _, gpu := range gpus {
				memory[gpu.UUID] += gpu.MemoryMiB
				cores[gpu.UUID] += gpu.Cores
				tenants[gpu.UUID]++
				alone[gpu.UUID] = alone[gpu.UUID] || gpu.Cores == 100
			}
		}
	}
	for i, mib := range worldGPUs {
		uuid := uuidOf(i)
		if memory[uuid] > mib || cores[uuid] > 100 || (alone[uuid] && tenants[uuid] > 1) {
			w.Fatalf("GPU %d: %d of %d MiB, %d%% of time, %d tenants", i, memory[uuid], mib, cores[uuid], tenants[uuid])
		}
	}
	if leaked := len(w.k.ledger.pods) - len(w.running) - len(w.placed); leaked > 0 {
		w.Fatalf("%d entries are left in the ledger", leaked)
	}
}

// No order of reserving, binding, losing answers, deleting and restarting gives
// a GPU's share twice, or leaves one behind.
func TestNoInterleavingAllocatesTwice(t *testing.T) {
	const steps = 8000
	w := &world{
		fixture: newFixture(t, map[string][]uint64{"n": worldGPUs}),
		random:  rand.New(rand.NewPCG(1, 2)),
		placed:  map[string]*v1.Pod{}, states: map[string]*framework.CycleState{}, running: map[string]*v1.Pod{},
	}
	bound := 0
	for range steps {
		switch n := w.random.IntN(100); {
		case n < 45:
			w.create()
		case n < 75:
			before := len(w.running)
			w.bind()
			bound += len(w.running) - before
		case n < 99:
			w.remove()
		default:
			w.crash()
		}
		w.check()
	}
	if bound < steps/20 {
		t.Fatalf("only %d pods were bound", bound)
	}
}
