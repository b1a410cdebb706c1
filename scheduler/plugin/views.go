package plugin

import (
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// views remembers what each node's GPUs hold and what the engine said about
// them, so that a scheduling cycle pays only for nodes that have changed since
// the last one. Nothing here is a second truth: a view is valid for one
// generation of the NodeInfo (kube-scheduler numbers every change of a NodeInfo,
// also of preemption's clones, differently) and for one state of the KruxNode,
// and is counted anew from the pods otherwise. While a pod group is placed the
// snapshot changes without a new generation (Snapshot.AssumePod puts the old one
// back): then nothing is remembered.
//
// All methods may be called from any goroutine.
type views struct {
	mu      sync.Mutex // guards classes
	classes map[string]*class
}

// class stands for all pods that ask for the same; compared by address.
type class struct{ _ byte }

// view is one node at one moment.
type view struct {
	generation int64
	inventory  *nodeInventory
	refusal    string   // why the node takes no Krux pod at all, or empty
	use        *nodeUse // never changed; nil with a refusal
	answers    atomic.Pointer[[]answer]
}

const noGPUs = "node(s) without Krux GPUs"

var withoutGPUs = &view{refusal: noGPUs}

// refusal says why the node can take no Krux pod, or is empty.
func refusal(inv *nodeInventory, info fwk.NodeInfo) string {
	if len(inv.gpus) == 0 {
		return noGPUs
	}
	// Without slots the kubelet would run the pod without asking the device
	// plugin, and NodeResourcesFit ignores a resource that a node never had.
	if info.GetAllocatable().GetScalarResources()[resourceGPU] <= 0 {
		return "node(s) where the Krux device plugin is not registered (allocatable krux.io/gpu is 0)"
	}
	return ""
}

// answer is the engine's for one class on one node. Immutable.
type answer struct {
	class *class
	code  fwk.Code // Success, Unschedulable or UnschedulableAndUnresolvable
	// reason is the user's; empty for Success.
	reason string
	score  int64
}

// Bounds of what is remembered: classes in all, and answers on each node. When
// full, the table starts empty: answers are only ever a shortcut.
const (
	maxClasses       = 1024
	maxAnswersOfNode = 32
)

func newViews() *views { return &views{classes: map[string]*class{}} }

// class of a request under its mix.
func (v *views) class(r *request) *class {
	key := classKey(r) + strconv.FormatUint(r.mix.number(), 16)
	v.mu.Lock()
	defer v.mu.Unlock()
	c, ok := v.classes[key]
	if !ok {
		if len(v.classes) >= maxClasses {
			clear(v.classes)
		}
		c = &class{}
		v.classes[key] = c
	}
	return c
}

// viewOf the node; one that can take no Krux pod at all has a refusal.
func (k *Krux) viewOf(info fwk.NodeInfo) *view {
	slot := k.inventory.slot(info.Node().Name)
	if slot == nil {
		return withoutGPUs
	}
	inv := slot.inventory.Load()
	if v := slot.view.Load(); v != nil && v.generation == info.GetGeneration() && v.inventory == inv {
		return v
	}
	v := &view{generation: info.GetGeneration(), inventory: inv}
	if v.refusal = refusal(inv, info); v.refusal == "" {
		v.use = k.countUse(inv, info, "")
	}
	slot.view.Store(v)
	return v
}

// answerFor the request on the node as it is in the NodeInfo.
func (k *Krux) answerFor(r *request, info fwk.NodeInfo) answer {
	if r.uncached {
		return k.freshAnswer(r, info, "")
	}
	v := k.viewOf(info)
	if v.refusal != "" {
		return answer{class: r.class, code: fwk.UnschedulableAndUnresolvable, reason: v.refusal}
	}
	known := v.answers.Load()
	if known != nil {
		for i := range *known {
			if (*known)[i].class == r.class {
				return (*known)[i]
			}
		}
	}
	a := k.ask(r, v.use)
	v.remember(known, a)
	return a
}

// freshAnswer counts anew, and leaves out the pod itself.
func (k *Krux) freshAnswer(r *request, info fwk.NodeInfo, self types.UID) answer {
	inv, status := k.usable(info)
	if status != nil {
		return answer{class: r.class, code: status.Code(), reason: status.Message()}
	}
	return k.ask(r, k.countUse(inv, info, self))
}

// remember adds an answer; when another goroutine was faster, it is let go.
func (v *view) remember(known *[]answer, a answer) {
	var list []answer
	if known != nil && len(*known) < maxAnswersOfNode {
		list = append(list, *known...)
	}
	list = append(list, a)
	v.answers.CompareAndSwap(known, &list)
}

// ask the engine, with the room of nominees kept.
func (k *Krux) ask(r *request, use *nodeUse) answer {
	if len(use.nominees) > 0 {
		use = use.clone()
		if !k.placeNominees(use, use.nominees) {
			return answer{class: r.class, code: fwk.Unschedulable,
				reason: "node(s) whose free GPU share is kept for a pod that preempted others there"}
		}
	}
	_, verdict := use.place(r)
	a := answer{class: r.class, score: verdict.score()}
	switch {
	case verdict.fits():
	case verdict.resolvable():
		a.code, a.reason = fwk.Unschedulable, verdict.reason()
	default:
		a.code, a.reason = fwk.UnschedulableAndUnresolvable, verdict.reason()
	}
	return a
}
