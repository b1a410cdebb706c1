package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// totals keeps krux.io/gpumem, gpumem-percentage and gpucores in the status of
// nodes: sums over the physical GPUs, so that the stock NodeResourcesFit (which
// refuses a resource that a node does not have at all), kubectl describe, quota
// and autoscalers see them. They are a necessary condition only; the
// plugin decides. They never shrink: a kubelet that restarts admits its running
// pods again, and could fail them.
//
// Every replica of the scheduler does this, not just the leader: all compute
// the same numbers, and only a node that lacks them is written.
type totals struct {
	client clientset.Interface
	k      *Krux
	queue  workqueue.TypedRateLimitingInterface[string]
	nodes  corelisters.NodeLister
	// largest GPU that the queue has heard of.
	largest atomic.Uint64
}

func newTotals(client clientset.Interface, k *Krux) *totals {
	limiter := workqueue.DefaultTypedControllerRateLimiter[string]()
	return &totals{client: client, k: k, queue: workqueue.NewTypedRateLimitingQueue(limiter)}
}

// start works until ctx ends.
func (t *totals) start(ctx context.Context, nodes coreinformers.NodeInformer) error {
	t.nodes = nodes.Lister()
	_, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { t.check(obj.(*v1.Node).Name) },
		UpdateFunc: func(_, obj any) { t.check(obj.(*v1.Node).Name) },
	})
	if err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		t.queue.ShutDown()
	}()
	go t.work(ctx)
	return nil
}

// check looks at the node soon; when a larger GPU than any before has appeared,
// at all nodes.
func (t *totals) check(node string) {
	if now := t.k.inventory.largest.Load(); t.largest.Swap(now) != now {
		t.k.inventory.nodes.Range(func(name, _ any) bool {
			t.queue.Add(name.(string))
			return true
		})
	}
	if t.k.inventory.of(node) != nil {
		t.queue.Add(node)
	}
}

func (t *totals) work(ctx context.Context) {
	const maxTries = 8 // then the next change of the node tries again
	for {
		name, shutdown := t.queue.Get()
		if shutdown {
			return
		}
		err := t.sync(ctx, name)
		if err != nil && t.queue.NumRequeues(name) < maxTries {
			t.queue.AddRateLimited(name)
		} else {
			t.queue.Forget(name)
		}
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Krux: writing GPU totals into the node's status", "node", name, "err", err)
		}
		t.queue.Done(name)
	}
}

func (t *totals) sync(ctx context.Context, name string) error {
	node, err := t.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	inv := t.k.inventory.of(name)
	if inv == nil {
		return nil
	}
	missing := missingTotals(node, inv.gpus, t.k.inventory.largest.Load())
	if len(missing) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": missing, "allocatable": missing}})
	if err != nil {
		return err
	}
	_, err = t.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patching status: %w", err)
	}
	return nil
}

// missingTotals gives the totals that the node shows too small or not at all.
//
// The totals for quota are upper bounds (every GPU as large as the largest of
// the cluster), because the webhook charges percent and whole GPUs so: they must
// never be what a pod does not fit for.
func missingTotals(node *v1.Node, gpus []nodeGPU, largest uint64) map[string]string {
	sums := map[v1.ResourceName]int64{}
	for _, gpu := range gpus {
		sums[resourceMemory] += int64(gpu.memoryMiB)
		sums[resourceMemoryPercent] += 100
		sums[resourceCores] += 100
		sums[resourceMemoryTotal] += int64(max(largest, gpu.memoryMiB))
		sums[resourceCoresTotal] += 100
	}
	missing := map[string]string{}
	for name, sum := range sums {
		capacity, allocatable := node.Status.Capacity[name], node.Status.Allocatable[name]
		if capacity.Value() < sum || allocatable.Value() < sum {
			missing[string(name)] = strconv.FormatInt(sum, 10)
		}
	}
	return missing
}
