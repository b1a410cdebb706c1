package plugin

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
)

func kruxNode(name string, gpus ...any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"gpus": gpus}}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "krux.io", Version: "v1alpha1", Kind: "KruxNode"})
	object.SetName(name)
	return object
}

func gpuFields(uuid string, memory int64, healthy bool) map[string]any {
	return map[string]any{"uuid": uuid, "model": "test", "memoryMiB": memory, "healthy": healthy}
}

func TestKruxNodeIsReadAndItsFaultsAreLeftOut(t *testing.T) {
	gpus, err := parseKruxNode(kruxNode("n",
		gpuFields(uuidOf(1), 1000, true),
		gpuFields(uuidOf(1), 1000, true),
		gpuFields("GPU-1", 1000, true),
		gpuFields(uuidOf(2), 0, true),
		gpuFields(uuidOf(3), maxMemoryMiB+1, true),
		"nonsense",
		gpuFields(uuidOf(4), 2000, false)))
	if err == nil || !strings.Contains(err.Error(), "spec.gpus[1]: uuid "+uuidOf(1)+" is there twice") {
		t.Errorf("error: %v", err)
	}
	want := []nodeGPU{{uuid: uuidOf(1), model: "test", memoryMiB: 1000, healthy: true}, {uuid: uuidOf(4), model: "test", memoryMiB: 2000}}
	if len(gpus) != 2 || gpus[0] != want[0] || gpus[1] != want[1] {
		t.Errorf("got %+v", gpus)
	}
	if gpus, err := parseKruxNode(kruxNode("n")); err != nil || len(gpus) != 0 {
		t.Errorf("without GPUs: %v %v", gpus, err)
	}
	if _, err := parseKruxNode(&unstructured.Unstructured{Object: map[string]any{"spec": 1}}); err == nil {
		t.Error("a spec that is no object was read")
	}
}

func TestKruxNodeHasABoundedNumberOfGPUs(t *testing.T) {
	var list []any
	for i := range maxGPUsPerNode + 1 {
		list = append(list, gpuFields(uuidOf(i), 1, true))
	}
	gpus, err := parseKruxNode(kruxNode("n", list...))
	if len(gpus) != maxGPUsPerNode || err == nil {
		t.Errorf("%d GPUs, %v", len(gpus), err)
	}
}

func receive(t *testing.T, changes <-chan string) string {
	t.Helper()
	select {
	case node := <-changes:
		return node
	case <-time.After(30 * time.Second):
		t.Fatal("no change was told")
		return ""
	}
}

func TestInventoryFollowsTheObjects(t *testing.T) {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{kruxNodes: "KruxNodeList"}, kruxNode("n", gpuFields(uuidOf(1), 1000, true)))
	changes := make(chan string, 16)
	inv := newInventory(func(node string) { changes <- node })
	go inv.run(t.Context(), client)
	for synced := false; !synced; synced = receive(t, changes) == "" {
	}
	if n := inv.of("n"); n == nil || len(n.gpus) != 1 || !inv.synced.Load() {
		t.Fatalf("after the start: %v", n)
	}
	sick := kruxNode("n", gpuFields(uuidOf(1), 1000, false))
	if _, err := client.Resource(kruxNodes).Update(t.Context(), sick, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	receive(t, changes)
	if n := inv.of("n"); len(n.gpus) != 1 || n.gpus[0].healthy {
		t.Fatalf("after a GPU fell sick: %v", n.gpus)
	}
}

func TestInventoryTellsOnlyRealChanges(t *testing.T) {
	count := 0
	inv := newInventory(func(string) { count++ })
	inv.set("n", []nodeGPU{{uuid: uuidOf(1)}})
	inv.set("n", []nodeGPU{{uuid: uuidOf(1)}})
	inv.set("n", nil)
	if count != 2 {
		t.Errorf("told %d times", count)
	}
}
