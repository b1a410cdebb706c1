// Command unschedulable writes docs/unschedulable.md: what kubectl describe pod
// really prints for pods that wait, from a real API server and krux-scheduler.
// scripts/document-unschedulable runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"krux.io/krux/tests/controlplane"
)

// waiting is one pod and why it waits.
type waiting struct {
	name, about string
	text        string // "gpu=1 gpumem=4096"
	node        string // label that it wants, or empty
	annotations map[string]string
}

var pods = []waiting{
	{name: "memory", about: "No GPU has that much memory free.", text: "gpu=1 gpumem=60000"},
	{name: "time", about: "Memory is free, but not enough of the GPU's time.", text: "gpu=1 gpumem=1000 gpucores=80"},
	{name: "whole", about: "A whole GPU, and every one has a tenant.", text: "gpu=1"},
	{name: "count", about: "More GPUs than any node has.", text: "gpu=4 gpumem=1000"},
	{name: "size", about: "More memory than any GPU has (the webhook denies this at once where it runs).", text: "gpu=1 gpumem=200000"},
	{name: "model", about: "A model that no node has.", text: "gpu=1 gpumem=1000", annotations: map[string]string{"krux.io/use-gpu-type": "B200"}},
	{name: "named", about: "A GPU named by UUID that is full.", text: "gpu=1 gpumem=40000",
		annotations: map[string]string{"krux.io/use-gpu-uuid": "GPU-00000001-0000-0000-0000-000000000000"}},
	{name: "cordoned", about: "The node that it wants has its GPUs cordoned (kubectl annotate kruxnode gpu-3 krux.io/cordon=all).", text: "gpu=1 gpumem=1000", node: "gpu-3"},
	{name: "unregistered", about: "The device plugin of the node that it wants is not running.", text: "gpu=1 gpumem=1000", node: "gpu-4"},
	{name: "tainted", about: "The node that it wants is tainted.", text: "gpu=1 gpumem=1000", node: "gpu-5"},
	{name: "wrong", about: "A request that means nothing (the webhook denies this at once where it runs).", text: "gpu=1 gpumem=1000 gpucores=101"},
	{name: "policy", about: "An annotation with an unknown value (denied by the webhook likewise).", text: "gpu=1 gpumem=1000",
		annotations: map[string]string{"krux.io/compute-policy": "greedy"}},
}

const head = `# Why a pod waits

What ` + "`kubectl describe pod`" + ` really prints, taken from a real API server and krux-scheduler by
` + "`scripts/document-unschedulable`" + `, which writes this page. The cluster: gpu-1 and gpu-2 with two H100 each,
gpu-3 with cordoned GPUs, gpu-4 without its device plugin, gpu-5 tainted, and "plain" without GPUs; on
gpu-1 and gpu-2 each GPU has a tenant with 50000 MiB and half of the time.

Each node is counted once, under what keeps the pod off it. The numbers are those of the GPU that
comes closest. ` + "`4 Preemption is not helpful`" + `: on 4 nodes no pod's leaving would help.
`

func main() {
	controlplane.RunAs()
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: unschedulable ROOT OUTPUT")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "unschedulable:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, output string) error {
	plane, err := controlplane.New(root)
	if plane != nil {
		defer plane.Stop()
	}
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(plane.Config("admin"))
	if err != nil {
		return err
	}
	if err := makeCluster(plane); err != nil {
		return err
	}
	config, err := plane.SchedulerConfig()
	if err != nil {
		return err
	}
	if err := plane.StartScheduler(config); err != nil {
		return err
	}
	for i, node := range []string{"gpu-1", "gpu-1", "gpu-2", "gpu-2"} {
		tenant := waiting{name: fmt.Sprintf("tenant-%d", i), text: "gpu=1 gpumem=50000 gpucores=50", node: node}
		if err := create(ctx, client, tenant); err != nil {
			return err
		}
		if err := until(ctx, client, tenant.name, func(p *v1.Pod) bool { return p.Spec.NodeName != "" }); err != nil {
			return err
		}
	}
	text := head
	for _, w := range pods {
		said, err := describe(ctx, plane, client, w)
		if err != nil {
			return err
		}
		text += fmt.Sprintf("\n## %s\n%s\n```\n%s```\n", w.name, request(w), said)
	}
	return os.WriteFile(output, []byte(text), 0o644)
}

func request(w waiting) string {
	line := w.about + " It asks for `" + w.text + "`"
	for name, value := range w.annotations {
		line += fmt.Sprintf(" with `%s: %s`", name, value)
	}
	return line + "."
}

const objects = `
apiVersion: v1
kind: Node
metadata: {name: %[1]s, labels: {node: %[1]s}}
spec: {taints: %[4]s}
status:
  capacity: {cpu: "32", memory: 256Gi, pods: "110", krux.io/gpu: "%[2]d"}
  allocatable: {cpu: "32", memory: 256Gi, pods: "110", krux.io/gpu: "%[2]d"}
---
apiVersion: krux.io/v1alpha1
kind: KruxNode
metadata: {name: %[1]s, annotations: {krux.io/cordon: "%[5]s"}}
spec:
  gpus: [%[3]s]
`

func makeCluster(plane *controlplane.Plane) error {
	var all strings.Builder
	for i := 1; i <= 5; i++ {
		slots, taints, cordon := 32, "[]", ""
		switch i {
		case 3:
			cordon = "all"
		case 4:
			slots = 0
		case 5:
			taints = "[{key: maintenance, effect: NoSchedule}]"
		}
		var gpus []string
		for gpu := range 2 {
			gpus = append(gpus, fmt.Sprintf(`{uuid: GPU-%08d-0000-0000-0000-%012d, model: NVIDIA H100 80GB HBM3, memoryMiB: 81559, healthy: true}`, i, gpu))
		}
		fmt.Fprintf(&all, objects+"---", fmt.Sprintf("gpu-%d", i), slots, strings.Join(gpus, ", "), taints, cordon)
	}
	all.WriteString(`
apiVersion: v1
kind: Node
metadata: {name: plain, labels: {node: plain}}
status:
  capacity: {cpu: "32", memory: 256Gi, pods: "110"}
  allocatable: {cpu: "32", memory: 256Gi, pods: "110"}
`)
	file := plane.Path("nodes.yaml")
	if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
		return err
	}
	_, err := plane.Kubectl("create", "-f", file)
	return err
}

func create(ctx context.Context, client kubernetes.Interface, w waiting) error {
	list := v1.ResourceList{}
	for field := range strings.FieldsSeq(w.text) {
		name, value, _ := strings.Cut(field, "=")
		list[v1.ResourceName("krux.io/"+name)] = resource.MustParse(value)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: w.name, Annotations: w.annotations}}
	if w.node != "" {
		pod.Spec.NodeSelector = map[string]string{"node": w.node}
	}
	pod.Spec.Containers = []v1.Container{{Name: "main", Image: "program:1", Resources: v1.ResourceRequirements{Limits: list, Requests: list}}}
	_, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	return err
}

func until(ctx context.Context, client kubernetes.Interface, name string, holds func(*v1.Pod) bool) error {
	const patience = 30 * time.Second
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		pod, err := client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if holds(pod) {
			return nil
		}
	}
	return errors.New("pod " + name + ": not within " + patience.String())
}

// describe gives the part of kubectl describe that says why.
func describe(ctx context.Context, plane *controlplane.Plane, client kubernetes.Interface, w waiting) (string, error) {
	if err := create(ctx, client, w); err != nil {
		return "", err
	}
	refused := func(p *v1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
				return true
			}
		}
		return false
	}
	if err := until(ctx, client, w.name, refused); err != nil {
		return "", err
	}
	for range 50 { // the event follows the condition
		text, err := plane.Kubectl("describe", "pod", w.name)
		if err != nil {
			return "", err
		}
		if at := strings.Index(text, "Events:"); at >= 0 && strings.Contains(text[at:], "FailedScheduling") {
			return text[at:], nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "", errors.New("pod " + w.name + " has no event")
}
