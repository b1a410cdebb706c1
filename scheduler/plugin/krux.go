package plugin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name of the plugin in KubeSchedulerConfiguration.
const Name = "Krux"

// Krux is the plugin.
type Krux struct {
	handle     fwk.Handle
	inventory  *inventory
	ledger     *ledger
	views      *views
	defaults   policies
	wide       marks // pods whose next try is over all nodes
	learner    *learner
	newestMix  *mix // not yet adopted; like the next one of the pod events' goroutine
	mixAdopted time.Time
	mix        atomic.Pointer[mix] // learnt; nil = the shipped one
	activate   chan struct{}       // asks for the waiting Krux pods to be tried again

	mu             sync.Mutex // guards the following
	lastGeneration uint64
	overlaps       map[string]bool // "node/uuid" that an event has been sent for
	anyOverlap     atomic.Bool     // overlaps is not empty: most calls need no lock
}

var (
	_ fwk.PreFilterPlugin   = &Krux{}
	_ fwk.FilterPlugin      = &Krux{}
	_ fwk.PostFilterPlugin  = &Krux{}
	_ fwk.PreScorePlugin    = &Krux{}
	_ fwk.ScorePlugin       = &Krux{}
	_ fwk.ScoreExtensions   = &Krux{}
	_ fwk.ReservePlugin     = &Krux{}
	_ fwk.BindPlugin        = &Krux{}
	_ fwk.EnqueueExtensions = &Krux{}
	_ fwk.SignPlugin        = &Krux{}
)

// New is the plugin's factory for kube-scheduler. ctx ends with the scheduler.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	defaults, err := parseArgs(args)
	if err != nil {
		return nil, fmt.Errorf("plugin Krux: %w", err)
	}
	client, err := dynamic.NewForConfig(handle.KubeConfig())
	if err != nil {
		return nil, fmt.Errorf("plugin Krux: client for KruxNode objects: %w", err)
	}
	k, err := newKrux(ctx, handle, defaults)
	if err != nil {
		return nil, err
	}
	go k.inventory.run(ctx, client)
	return k, nil
}

// newKrux is New without the KruxNode watch: tests fill the inventory.
func newKrux(ctx context.Context, handle fwk.Handle, defaults policies) (*Krux, error) {
	learner, err := newLearner()
	if err != nil {
		return nil, fmt.Errorf("plugin Krux: %w", err)
	}
	k := &Krux{
		handle:   handle,
		learner:  learner,
		ledger:   newLedger(),
		views:    newViews(),
		defaults: defaults,
		activate: make(chan struct{}, 1),
		overlaps: map[string]bool{},
	}
	totals := newTotals(handle.ClientSet(), k)
	k.inventory = newInventory(func(node string) {
		k.askActivation()
		learner.setNode(node, k.inventory.of(node))
		totals.check(node)
	})
	if err := k.watchPods(ctx); err != nil {
		return nil, fmt.Errorf("plugin Krux: watching pods: %w", err)
	}
	if err := totals.start(ctx, handle.SharedInformerFactory().Core().V1().Nodes()); err != nil {
		return nil, fmt.Errorf("plugin Krux: watching nodes: %w", err)
	}
	return k, nil
}

// Name is part of fwk.Plugin.
func (k *Krux) Name() string { return Name }

const requestKey, reservationKey fwk.StateKey = "Krux/request", "Krux/reservation"

// Clone is part of fwk.StateData: a request never changes.
func (r *request) Clone() fwk.StateData { return r }

// reservation is the generation of the cycle's Reserve call.
type reservation uint64

func (r reservation) Clone() fwk.StateData { return r }

func requestOf(state fwk.CycleState) *request {
	data, err := state.Read(requestKey)
	if err != nil {
		return nil
	}
	r, _ := data.(*request)
	return r
}

// PreFilter reads the pod's request and finds the best nodes; see narrow.
func (k *Krux) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if !asksForGPU(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	r, err := k.parse(pod)
	if err == nil && r == nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	if err == nil && pod.Spec.NodeName == "" {
		err = r.checkUnbound(pod)
	}
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "krux: "+err.Error())
	}
	if !k.inventory.synced.Load() {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			"krux: the nodes' GPUs (KruxNode objects) have not been read yet")
	}
	r.class = k.views.class(r)
	r.uncached = state.IsPodGroupSchedulingCycle()
	state.Write(requestKey, r)
	if best := k.narrow(ctx, state, pod, r, nodes); len(best) > 0 {
		r.narrowed = true
		return &fwk.PreFilterResult{NodeNames: best}, nil
	}
	return nil, nil
}

// PreFilterExtensions is nil: Filter counts the pods of the NodeInfo that it is
// given, to which preemption has already added and from which it has removed.
func (k *Krux) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter says whether the pod fits on the node, beside nominees in the NodeInfo.
func (k *Krux) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	r := requestOf(state)
	if r == nil {
		return nil
	}
	if pod.Spec.NodeName != "" {
		return k.filterBound(r, pod, info)
	}
	if a := k.answerFor(r, info); a.code != fwk.Success {
		return fwk.NewStatus(a.code, a.reason) // a new one: the framework writes into it
	}
	return nil
}

// filterBound: the scheduler filters a bound pod again when its CPU or memory is
// resized; it must not count against itself.
func (k *Krux) filterBound(r *request, pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	if a := k.freshAnswer(r, info, pod.UID); a.code != fwk.Success {
		return fwk.NewStatus(a.code, a.reason)
	}
	return nil
}

// usable gives the node's GPUs, or says why it can take no Krux pod.
func (k *Krux) usable(info fwk.NodeInfo) (*nodeInventory, *fwk.Status) {
	inv := k.inventory.of(info.Node().Name)
	if inv == nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, noGPUs)
	}
	if text := refusal(inv, info); text != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
	}
	return inv, nil
}

// Reserve fixes the pod's GPUs by name and enters them in the ledger.
//
// A pod that passed Filter can still fail here, when GPUs have changed or a
// member of its pod group took the room since the snapshot. That is an error,
// not a rejection: errors are tried again without waiting for an event.
func (k *Krux) Reserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	r := requestOf(state)
	if r == nil {
		return nil
	}
	info, err := k.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("krux: node %q: %w", nodeName, err))
	}
	inv, status := k.usable(info)
	if status != nil {
		return fwk.AsStatus(fmt.Errorf("krux: node %q has changed: %w", nodeName, status.AsError()))
	}
	// Not the remembered view: for a pod group the pod itself is in the snapshot.
	use := k.countUse(inv, info, pod.UID)
	k.addAssumed(use, info, nodeName, pod.UID)
	k.placeNominees(use, k.nominees(pod, nodeName))
	plans, v := use.place(r)
	if !v.fits() {
		return fwk.AsStatus(fmt.Errorf("krux: node %q has changed: %s", nodeName, v.reason()))
	}
	e, err := k.newEntry(r, pod, nodeName, use, plans)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("krux: %w", err))
	}
	k.ledger.put(pod.UID, e)
	state.Write(reservationKey, reservation(e.generation))
	return nil
}

// addAssumed charges pods that the snapshot does not have yet: members of a pod
// group are placed one after another on one snapshot.
func (k *Krux) addAssumed(use *nodeUse, info fwk.NodeInfo, nodeName string, self types.UID) {
	assumed := k.ledger.assumedOn(nodeName)
	delete(assumed, self)
	for _, pi := range info.GetPods() {
		delete(assumed, pi.GetPod().UID)
	}
	for _, e := range assumed {
		use.add(e.shares)
	}
}

// nominees of equal or higher priority on the node; Filter has counted them.
// Members of a pod group are nominated and placed at once: what is in the ledger
// is charged already.
func (k *Krux) nominees(pod *v1.Pod, nodeName string) []*v1.Pod {
	var found []*v1.Pod
	for _, pi := range k.handle.NominatedPodsForNode(nodeName) {
		other := pi.GetPod()
		if e := k.ledger.get(other.UID); e != nil && e.node == nodeName {
			continue
		}
		if other.UID != pod.UID && corev1helpers.PodPriority(other) >= corev1helpers.PodPriority(pod) {
			found = append(found, other)
		}
	}
	return found
}

func (k *Krux) newEntry(r *request, pod *v1.Pod, nodeName string, use *nodeUse, plans [][]placedGPU) (*entry, error) {
	shares, err := use.sharesFor(r, plans)
	if err != nil {
		return nil, err
	}
	g := &grant{
		Version:    1,
		PodUID:     string(pod.UID),
		Node:       nodeName,
		Generation: k.nextGeneration(),
		Containers: map[string][]gpuGrant{},
	}
	for i, c := range r.containers {
		for _, placed := range plans[i] {
			g.Containers[c.name] = append(g.Containers[c.name], gpuGrant{
				UUID:      use.names[placed.index].uuid,
				MemoryMiB: placed.memoryMiB,
				Cores:     uint32(c.c.cores),
				Policy:    r.policy,
				Priority:  r.priority,
			})
		}
	}
	text, err := g.text()
	if err != nil {
		return nil, err
	}
	return &entry{node: nodeName, shares: shares, grant: text, generation: g.Generation, assumed: true}, nil
}

// nextGeneration rises with each grant, also over restarts.
func (k *Krux) nextGeneration() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lastGeneration = max(k.lastGeneration+1, uint64(time.Now().UnixMilli()))
	return k.lastGeneration
}

// Unreserve takes back this cycle's Reserve; without one it does nothing.
func (k *Krux) Unreserve(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	data, err := state.Read(reservationKey)
	if err != nil {
		return
	}
	if r, ok := data.(reservation); ok {
		k.ledger.undo(pod.UID, uint64(r))
	}
}

// SignPod keeps Krux pods out of batches, whose members share one cycle's
// scores, and leaves other pods' batches alone.
func (k *Krux) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if asksForGPU(pod) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "krux: GPU shares are planned pod by pod")
	}
	return nil, nil
}
