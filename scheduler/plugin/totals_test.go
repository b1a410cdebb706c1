package plugin

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTotalsNeverShrink(t *testing.T) {
	gpus := []nodeGPU{{memoryMiB: 1000, healthy: true}, {memoryMiB: 500}}
	node := &v1.Node{}
	want := map[string]string{
		resourceMemory: "1500", resourceMemoryPercent: "200", resourceCores: "200",
		// As if every GPU were the largest of the cluster: see missingTotals.
		resourceMemoryTotal: "4000", resourceCoresTotal: "200",
	}
	if got := missingTotals(node, gpus, 2000); !maps.Equal(got, want) {
		t.Errorf("fresh node: %v", got)
	}
	shown := v1.ResourceList{
		resourceMemory:        resource.MustParse("1500"),
		resourceMemoryPercent: resource.MustParse("200"),
		resourceCores:         resource.MustParse("200"),
		resourceMemoryTotal:   resource.MustParse("4000"),
		resourceCoresTotal:    resource.MustParse("200"),
	}
	node.Status.Capacity, node.Status.Allocatable = shown, shown
	if got := missingTotals(node, gpus, 0); len(got) != 0 {
		t.Errorf("complete node: %v", got)
	}
	if got := missingTotals(node, gpus[:1], 0); len(got) != 0 {
		t.Errorf("lost GPU: %v", got)
	}
	node.Status.Allocatable = v1.ResourceList{
		resourceMemoryPercent: resource.MustParse("200"),
		resourceCores:         resource.MustParse("200"),
		resourceMemoryTotal:   resource.MustParse("4000"),
		resourceCoresTotal:    resource.MustParse("200"),
	}
	if got := missingTotals(node, gpus, 0); !maps.Equal(got, map[string]string{resourceMemory: "1500"}) {
		t.Errorf("allocatable zeroed: %v", got)
	}
}

func TestTotalsAreWrittenIntoTheNodesStatus(t *testing.T) {
	f := newFixture(t, nil)
	node := &v1.Node{}
	node.Name = "n"
	if err := f.client.Tracker().Add(node); err != nil {
		t.Fatal(err)
	}
	totals := newTotals(f.client, f.k)
	f.k.inventory.set("n", []nodeGPU{{uuid: uuidOf(0), memoryMiB: 1000, healthy: true}})
	totals.nodes = f.factory.Core().V1().Nodes().Lister()
	f.factory.Start(t.Context().Done())
	f.factory.WaitForCacheSync(t.Context().Done())
	if err := totals.sync(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	now, err := f.client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	memory, cores := now.Status.Capacity[resourceMemory], now.Status.Allocatable[resourceCores]
	if memory.Value() != 1000 || cores.Value() != 100 {
		t.Errorf("status: %+v", now.Status)
	}
	if err := totals.sync(t.Context(), "gone"); err != nil {
		t.Errorf("a node that has gone: %v", err)
	}
}
