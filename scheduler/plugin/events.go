package plugin

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// EventsToRegister names what can make room for a pod that Krux refused. A
// change of a KruxNode, or of the pod's own annotations, has no event here:
// see watchPods and inventory.
func (k *Krux) EventsToRegister(_ context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete},
			QueueingHintFn: hintPodGone,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable}},
	}, nil
}

// hintPodGone: only a Krux pod's leaving frees a share. Pods in a final phase
// are deleted for the scheduler's informer.
func hintPodGone(_ klog.Logger, _ *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	gone, ok := oldObj.(*v1.Pod)
	if ok && !asksForGPU(gone) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// watchPods keeps the ledger in step with the API server.
func (k *Krux) watchPods(ctx context.Context) error {
	informer := k.handle.SharedInformerFactory().Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.podArrived(obj) },
		UpdateFunc: func(oldObj, newObj any) { k.podChanged(oldObj.(*v1.Pod), newObj.(*v1.Pod)) },
		DeleteFunc: k.podGone,
	})
	go k.activateWaiting(ctx)
	go wait.UntilWithContext(ctx, k.sweepLedger, sweepEvery)
	return err
}

// sweepEvery bounds how long an entry of a pod stays whose deletion came before
// the entry: the cache that filters read may lag behind the events.
const sweepEvery = 5 * time.Minute

func (k *Krux) sweepLedger(ctx context.Context) {
	factory := k.handle.SharedInformerFactory().Core().V1().Pods()
	if !factory.Informer().HasSynced() {
		return
	}
	pods, err := factory.Lister().List(labels.Everything())
	if err != nil {
		return
	}
	there := make(map[types.UID]bool, len(pods))
	for _, pod := range pods {
		there[pod.UID] = true
	}
	if gone := k.ledger.keepOnly(there); gone > 0 {
		klog.FromContext(ctx).V(2).Info("Krux: entries of pods that are gone were removed from the ledger", "count", gone)
	}
}

// podArrived lets the engine learn what pods are typical here. At the start
// these are the pods that are there: the mix survives a restart.
func (k *Krux) podArrived(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	var r *request
	if asksForGPU(pod) {
		var err error
		if r, err = k.parse(pod); err != nil {
			return
		}
	}
	if m := k.learner.learn(r); m != nil {
		k.newestMix = m
	}
	// A new mix makes every remembered answer stale: in a burst of pods that would
	// cost more than the newer mix is worth.
	if now := time.Now(); k.newestMix != nil && now.Sub(k.mixAdopted) >= mixEvery {
		k.mix.Store(k.newestMix)
		k.newestMix, k.mixAdopted = nil, now
	}
}

// mixEvery is how often the engine's knowledge of typical pods may change.
const mixEvery = 30 * time.Second

func (k *Krux) podChanged(old, now *v1.Pod) {
	if now.Spec.NodeName != "" {
		if _, ok := now.Annotations[annotationGrant]; ok {
			k.ledger.confirm(now.UID)
		}
		return
	}
	// kube-scheduler's queue gets the new pod by a handler of its own, and knows
	// no event for annotations: the pod is tried again when the queue has it.
	const queueHasIt = time.Second
	for _, name := range podAnnotations {
		if old.Annotations[name] != now.Annotations[name] {
			time.AfterFunc(queueHasIt, k.askActivation)
			return
		}
	}
}

func (k *Krux) podGone(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if pod, ok := obj.(*v1.Pod); ok {
		k.ledger.remove(pod.UID)
	}
}

// askActivation never blocks; requests that come together are one.
func (k *Krux) askActivation() {
	select {
	case k.activate <- struct{}{}:
	default:
	}
}

func (k *Krux) activateWaiting(ctx context.Context) {
	lister := k.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.activate:
		}
		pods, err := lister.List(labels.Everything())
		if err != nil {
			continue
		}
		waiting := map[string]*v1.Pod{}
		for _, pod := range pods {
			if pod.Spec.NodeName == "" && asksForGPU(pod) {
				waiting[pod.Namespace+"/"+pod.Name] = pod
			}
		}
		if len(waiting) > 0 {
			k.handle.Activate(klog.FromContext(ctx), waiting)
		}
	}
}

// reportOverlaps sends one event for each GPU whose grants exceed it. The engine
// gives such a GPU to nobody until pods have left.
func (k *Krux) reportOverlaps(node *v1.Node, use *nodeUse) {
	for i := range use.gpus {
		gpu := &use.gpus[i]
		over := gpu.usedMiB() > gpu.memoryMiB() || gpu.usedCores() > 100
		if !over && !k.anyOverlap.Load() {
			continue
		}
		if k.noteOverlap(node.Name+"/"+use.names[i].uuid, over) {
			k.warn(node, "KruxOvercommitted", fmt.Sprintf(
				"GPU %s is granted %d of %d MiB and %d%% of its time: it takes no newcomers until pods there are deleted",
				use.names[i].uuid, gpu.usedMiB(), gpu.memoryMiB(), gpu.usedCores()))
		}
	}
}

// noteOverlap says whether the overlap is news.
func (k *Krux) noteOverlap(key string, over bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	told := k.overlaps[key]
	if over {
		k.overlaps[key] = true
	} else {
		delete(k.overlaps, key)
	}
	k.anyOverlap.Store(len(k.overlaps) > 0)
	return over && !told
}

// warn tells the user about an object by an event.
func (k *Krux) warn(object runtime.Object, reason, note string) {
	if recorder := k.handle.EventRecorder(); recorder != nil {
		recorder.Eventf(object, nil, v1.EventTypeWarning, reason, "Scheduling", "%s", note)
	}
}
