package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

var kruxNodes = schema.GroupVersionResource{Group: "krux.io", Version: "v1alpha1", Resource: "kruxnodes"}

// nodeGPU is one GPU as the node's device plugin publishes it.
type nodeGPU struct {
	uuid, model string
	memoryMiB   uint64
	healthy     bool
	cordoned    bool   // an operator keeps newcomers off: annotation krux.io/cordon
	mig         bool   // in MIG mode: not shared
	numa        uint32 // NUMA node + 1; 0 = not known
	links       uint64 // bit i: NVLink to the node's GPU i
	key         uint64 // uuid, as the engine knows it
	modelID     uint32 // of models
}

// nodeInventory is what one KruxNode says. Immutable: a change is a new one.
type nodeInventory struct {
	gpus  []nodeGPU
	index map[string]int // uuid -> place in gpus
}

func newNodeInventory(gpus []nodeGPU) *nodeInventory {
	inv := &nodeInventory{gpus: gpus, index: make(map[string]int, len(gpus))}
	for i := range gpus {
		gpus[i].key = uuidKey(gpus[i].uuid)
		inv.index[gpus[i].uuid] = i
	}
	return inv
}

// inventory holds the GPUs of every node, from the KruxNode objects.
//
// It is an informer of its own and not one of EventsToRegister: the scheduler
// waits for all of those before it places anything, so that a cluster without
// the CRD could not schedule any pod at all.
type inventory struct {
	onChange func(node string)
	synced   atomic.Bool
	largest  atomic.Uint64 // memory of the largest GPU met so far, MiB

	nodes sync.Map // node name -> *nodeSlot

	mu     sync.RWMutex // guards models, and writes to nodes
	models []string     // a model's place is its id; at most maxModels - 1
}

// nodeSlot is what is known of a node with a KruxNode.
type nodeSlot struct {
	inventory atomic.Pointer[nodeInventory]
	view      atomic.Pointer[view] // see view
}

func newInventory(onChange func(node string)) *inventory {
	return &inventory{onChange: onChange}
}

// slot of a node; not known = nil.
func (inv *inventory) slot(node string) *nodeSlot {
	slot, ok := inv.nodes.Load(node)
	if !ok {
		return nil
	}
	return slot.(*nodeSlot)
}

// of a node; not known = nil.
func (inv *inventory) of(node string) *nodeInventory {
	if slot := inv.slot(node); slot != nil {
		return slot.inventory.Load()
	}
	return nil
}

// noModel is the bit of a model that no GPU has.
const noModel = uint64(1) << (maxModels - 1)

// modelBits gives the known models that a comma list names; a list that names
// none gives noModel, an empty list 0.
func (inv *inventory) modelBits(list string) uint64 {
	if list == "" {
		return 0
	}
	inv.mu.RLock()
	defer inv.mu.RUnlock()
	bits := uint64(0)
	for id, model := range inv.models {
		if matchesModel(list, model) {
			bits |= 1 << id
		}
	}
	if bits == 0 {
		return noModel
	}
	return bits
}

// modelID numbers models as they are met. inv.mu is held. When there are more
// than the engine can tell apart, the others are one, with the last number.
func (inv *inventory) modelID(model string) uint32 {
	id := slices.Index(inv.models, model)
	if id < 0 {
		if len(inv.models) == maxModels-1 {
			return maxModels - 2
		}
		id = len(inv.models)
		inv.models = append(inv.models, model)
	}
	return uint32(id)
}

// run fills the inventory until ctx ends. It waits for the CRD by itself.
func (inv *inventory) run(ctx context.Context, client dynamic.Interface) {
	logger := klog.FromContext(ctx)
	told := false
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(kruxNodes).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil && !told {
			logger.Info("Krux: no KruxNode objects yet, trying every second: install the CRD, grant the scheduler list and watch", "err", err)
			told = true
		}
		return err == nil, nil
	})
	if err != nil {
		return
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	informer := factory.ForResource(kruxNodes).Informer()
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { inv.update(logger, obj) },
		UpdateFunc: func(_, obj any) { inv.update(logger, obj) },
		DeleteFunc: inv.remove,
	})
	if err != nil {
		logger.Error(err, "Krux: watching KruxNode objects")
		return
	}
	factory.Start(ctx.Done())
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		inv.synced.Store(true)
		inv.onChange("")
	}
}

func (inv *inventory) update(logger klog.Logger, obj any) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	gpus, err := parseKruxNode(object)
	if err != nil {
		logger.Error(err, "Krux: KruxNode is not usable as it is", "node", object.GetName())
	}
	inv.set(object.GetName(), gpus)
}

func (inv *inventory) set(node string, gpus []nodeGPU) {
	if inv.replace(node, gpus) {
		inv.onChange(node)
	}
}

// replace says whether anything is new.
func (inv *inventory) replace(node string, gpus []nodeGPU) bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for i := range gpus {
		gpus[i].modelID = inv.modelID(gpus[i].model)
		if gpus[i].memoryMiB > inv.largest.Load() { // inv.mu is held: nobody else writes
			inv.largest.Store(gpus[i].memoryMiB)
		}
	}
	fresh := newNodeInventory(gpus)
	slot := inv.slot(node)
	if slot == nil {
		slot = &nodeSlot{}
		slot.inventory.Store(fresh)
		inv.nodes.Store(node, slot)
		return true
	}
	if slices.Equal(slot.inventory.Load().gpus, gpus) {
		return false
	}
	slot.inventory.Store(fresh)
	return true
}

func (inv *inventory) remove(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.nodes.Delete(object.GetName())
}

// parseKruxNode gives the usable GPUs, and an error about the others.
func parseKruxNode(object *unstructured.Unstructured) ([]nodeGPU, error) {
	list, _, err := unstructured.NestedSlice(object.Object, "spec", "gpus")
	if err != nil {
		return nil, fmt.Errorf("spec.gpus: %w", err)
	}
	var gpus []nodeGPU
	var firstErr error
	for i, entry := range list {
		gpu, err := parseGPU(entry)
		if err == nil && len(gpus) == maxGPUsPerNode {
			err = fmt.Errorf("a node has at most %d GPUs", maxGPUsPerNode)
		}
		if err == nil && slices.ContainsFunc(gpus, func(g nodeGPU) bool { return g.uuid == gpu.uuid }) {
			err = fmt.Errorf("uuid %s is there twice", gpu.uuid)
		}
		if err != nil {
			if firstErr == nil {
				firstErr = fmt.Errorf("spec.gpus[%d]: %w", i, err)
			}
			continue
		}
		gpus = append(gpus, gpu)
	}
	readLinks(list, gpus)
	cordon(object.GetAnnotations()[annotationCordon], gpus)
	return gpus, firstErr
}

// readLinks turns names of linked GPUs into bits; links must be told by both ends.
func readLinks(list []any, gpus []nodeGPU) {
	told := make([]uint64, len(gpus))
	place := map[string]int{}
	for i := range gpus {
		place[gpus[i].uuid] = i
	}
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		uuid, _ := fields["uuid"].(string)
		names, _ := fields["linkedTo"].([]any)
		i, ok := place[uuid]
		for _, name := range names {
			text, _ := name.(string)
			if k, known := place[text]; ok && known && k != i {
				told[i] |= 1 << k
			}
		}
	}
	for i := range gpus {
		for k := range gpus {
			if told[i]>>k&1 == 1 && told[k]>>i&1 == 1 {
				gpus[i].links |= 1 << k
			}
		}
	}
}

// cordon reads the operator's list: UUIDs, or "all".
func cordon(list string, gpus []nodeGPU) {
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		for i := range gpus {
			if word == "all" || word == gpus[i].uuid {
				gpus[i].cordoned = true
			}
		}
	}
}

func parseGPU(entry any) (nodeGPU, error) {
	fields, ok := entry.(map[string]any)
	if !ok {
		return nodeGPU{}, fmt.Errorf("not an object")
	}
	uuid, _ := fields["uuid"].(string)
	model, _ := fields["model"].(string)
	memory, _ := fields["memoryMiB"].(int64)
	healthy, _ := fields["healthy"].(bool)
	mig, _ := fields["mig"].(bool)
	numa, hasNUMA := fields["numaNode"].(int64)
	if !gpuUUID.MatchString(uuid) {
		return nodeGPU{}, fmt.Errorf("uuid %.64q is malformed", uuid)
	}
	if memory < 1 || memory > maxMemoryMiB {
		return nodeGPU{}, fmt.Errorf("memoryMiB is missing or out of range")
	}
	gpu := nodeGPU{uuid: uuid, model: model, memoryMiB: uint64(memory), healthy: healthy, mig: mig}
	const maxNUMA = 1024
	if hasNUMA && numa >= 0 && numa < maxNUMA {
		gpu.numa = uint32(numa) + 1
	}
	return gpu, nil
}
