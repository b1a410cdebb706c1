package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

const grantAnnotation = "krux.io/grant"

var kruxNodes = schema.GroupVersionResource{Group: "krux.io", Version: "v1alpha1", Resource: "kruxnodes"}

type grant struct {
	PodUID     string
	Node       string
	Containers map[string][]struct {
		UUID   string
		MemMiB uint64
		Cores  int
	}
}

func uuidOf(n int) string { return fmt.Sprintf("GPU-%08x-0000-0000-0000-000000000000", n) }

// eventually tries until it holds; the last error is the test's.
func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// addNode makes a node with GPUs of the given MiB, and cleans everything at the
// end of the test. Its label krux-test=NAME keeps tests apart.
func addNode(t *testing.T, name string, gpus ...int64) {
	t.Helper()
	admin, ctx := client(t, "admin"), context.Background()
	resources := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("1000"), v1.ResourceMemory: resource.MustParse("1000Gi"),
		v1.ResourcePods: resource.MustParse("500"), "krux.io/gpu": resource.MustParse(fmt.Sprint(64 * len(gpus))),
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"krux-test": name}}}
	node.Status.Capacity, node.Status.Allocatable = resources, resources
	if _, err := admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	setGPUs(t, name, gpus...)
	t.Cleanup(func() {
		now := int64(0)
		_ = admin.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
		_ = admin.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		_ = dynamicClient(t, "admin").Resource(kruxNodes).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

func kruxNode(name string, gpus ...int64) *unstructured.Unstructured {
	list := []any{}
	for i, mib := range gpus {
		list = append(list, map[string]any{"uuid": uuidOf(i), "model": "test", "memoryMiB": mib, "healthy": true})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "krux.io/v1alpha1", "kind": "KruxNode",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"gpus": list},
	}}
}

func setGPUs(t *testing.T, name string, gpus ...int64) {
	t.Helper()
	_, err := dynamicClient(t, "admin").Resource(kruxNodes).Apply(context.Background(), name, kruxNode(name, gpus...),
		metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		t.Fatal(err)
	}
}

// podOn wants that node; text is "gpu=1 gpumem=4096".
func podOn(node, name, text string) *v1.Pod {
	list := v1.ResourceList{}
	for _, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		list[v1.ResourceName("krux.io/"+key)] = resource.MustParse(value)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	pod.Spec.NodeSelector = map[string]string{"krux-test": node}
	pod.Spec.Containers = []v1.Container{{Name: "main", Image: "none", Resources: v1.ResourceRequirements{Limits: list, Requests: list}}}
	return pod
}

func create(t *testing.T, pod *v1.Pod) *v1.Pod {
	t.Helper()
	created, err := client(t, "tenant").CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func get(t *testing.T, name string) (*v1.Pod, error) {
	t.Helper()
	return client(t, "admin").CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
}

// remove plays the kubelet's part too: the pod is gone at once.
func remove(t *testing.T, name string) {
	t.Helper()
	now := int64(0)
	err := client(t, "admin").CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// waitBound gives the pod's grant.
func waitBound(t *testing.T, name string) grant {
	t.Helper()
	var g grant
	eventually(t, "pod "+name+" is bound", func() error {
		pod, err := get(t, name)
		if err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("not bound: %s", condition(pod))
		}
		if err := json.Unmarshal([]byte(pod.Annotations[grantAnnotation]), &g); err != nil {
			t.Fatalf("grant %q: %v", pod.Annotations[grantAnnotation], err)
		}
		if g.PodUID != string(pod.UID) || g.Node != pod.Spec.NodeName {
			t.Fatalf("grant %+v is not of pod %s on %s", g, pod.UID, pod.Spec.NodeName)
		}
		return nil
	})
	return g
}

func condition(pod *v1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Message
		}
	}
	return ""
}

// waitPending waits for the scheduler's answer with that text.
func waitPending(t *testing.T, name, part string) {
	t.Helper()
	eventually(t, "pod "+name+" is pending", func() error {
		pod, err := get(t, name)
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != "" {
			t.Fatalf("pod %s is bound", name)
		}
		if message := condition(pod); !strings.Contains(message, part) {
			return fmt.Errorf("message is %q, want %q", message, part)
		}
		return nil
	})
}

// follow keeps the grants in force, and gives an error when a GPU is exceeded.
func follow(held map[string]grant, event watch.Event, node string, gpuMiB uint64) error {
	pod, ok := event.Object.(*v1.Pod)
	if !ok || pod.Spec.NodeName != node {
		return nil
	}
	if event.Type == watch.Deleted {
		delete(held, string(pod.UID))
		return nil
	}
	var g grant
	if err := json.Unmarshal([]byte(pod.Annotations[grantAnnotation]), &g); err != nil {
		return fmt.Errorf("pod %s: grant %q: %w", pod.Name, pod.Annotations[grantAnnotation], err)
	}
	held[string(pod.UID)] = g
	memory := map[string]uint64{}
	for _, g := range held {
		for _, gpus := range g.Containers {
			for _, gpu := range gpus {
				if memory[gpu.UUID] += gpu.MemMiB; memory[gpu.UUID] > gpuMiB {
					return fmt.Errorf("GPU %s: %d of %d MiB are granted", gpu.UUID, memory[gpu.UUID], gpuMiB)
				}
			}
		}
	}
	return nil
}
