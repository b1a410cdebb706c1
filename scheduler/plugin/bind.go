package plugin

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// Bind writes node name and grant in one Binding. The UID in it is a
// precondition: a pod of the same name that came since gets nothing.
func (k *Krux) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	if !asksForGPU(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	e := k.ledger.get(pod.UID)
	if e == nil || e.node != nodeName || !e.assumed {
		// krux.io/gpu: 0 everywhere is a pod without GPUs.
		if r, err := parseRequest(pod, k.defaults); err == nil && r == nil {
			return fwk.NewStatus(fwk.Skip)
		}
		return fwk.AsStatus(fmt.Errorf("krux: no GPU is reserved for the pod on node %q", nodeName))
	}
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   pod.Namespace,
			Name:        pod.Name,
			UID:         pod.UID,
			Annotations: map[string]string{annotationGrant: e.grant},
		},
		Target: v1.ObjectReference{Kind: "Node", Name: nodeName},
	}
	if err := k.post(ctx, binding); err != nil && !k.boundAnyway(ctx, pod, e) {
		return fwk.AsStatus(err)
	}
	return nil
}

func (k *Krux) post(ctx context.Context, binding *v1.Binding) error {
	cacher := k.handle.APICacher()
	if cacher == nil {
		return util.BindPod(ctx, k.handle.ClientSet(), binding)
	}
	done, err := cacher.BindPod(binding)
	if err != nil {
		return err
	}
	return cacher.WaitOnFinish(ctx, done)
}

// boundAnyway looks whether the Binding was stored although its answer was lost:
// else its share would look free until the pod's event comes.
func (k *Krux) boundAnyway(ctx context.Context, pod *v1.Pod, e *entry) bool {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	now, err := k.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Krux: cannot see whether the binding was stored", "pod", klog.KObj(pod), "err", err)
		return false
	}
	return now.UID == pod.UID && now.Spec.NodeName == e.node && now.Annotations[annotationGrant] == e.grant
}
