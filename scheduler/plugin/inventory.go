package plugin

import (
	"context"
	"fmt"
	"slices"
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
}

// inventory holds the GPUs of every node, from the KruxNode objects.
//
// It is an informer of its own and not one of EventsToRegister: the scheduler
// waits for all of those before it places anything, so that a cluster without
// the CRD could not schedule any pod at all.
type inventory struct {
	onChange func(node string)
	synced   atomic.Bool

	mu    sync.RWMutex // guards nodes; the slices are never changed, only replaced
	nodes map[string][]nodeGPU
}

func newInventory(onChange func(node string)) *inventory {
	return &inventory{onChange: onChange, nodes: map[string][]nodeGPU{}}
}

// gpus of a node; not known = false.
func (inv *inventory) gpus(node string) ([]nodeGPU, bool) {
	inv.mu.RLock()
	defer inv.mu.RUnlock()
	gpus, ok := inv.nodes[node]
	return gpus, ok
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
	inv.mu.Lock()
	old, known := inv.nodes[node]
	inv.nodes[node] = gpus
	inv.mu.Unlock()
	if !known || !slices.Equal(old, gpus) {
		inv.onChange(node)
	}
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
	delete(inv.nodes, object.GetName())
	inv.mu.Unlock()
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
	return gpus, firstErr
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
	if !gpuUUID.MatchString(uuid) {
		return nodeGPU{}, fmt.Errorf("uuid %.64q is malformed", uuid)
	}
	if memory < 1 || memory > maxMemoryMiB {
		return nodeGPU{}, fmt.Errorf("memoryMiB is missing or out of range")
	}
	return nodeGPU{uuid: uuid, model: model, memoryMiB: uint64(memory), healthy: healthy}, nil
}
