package plugin

import (
	"fmt"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// One node of 8 GPUs with 24 tenants and 10 plain pods.
func BenchmarkFilter(b *testing.B) {
	f := newFixture(b, nil)
	f.addNode("n", 128)
	f.setGPUs("n", 80000, 80000, 80000, 80000, 80000, 80000, 80000, 80000)
	for i := range 24 {
		f.place(podOf(fmt.Sprintf("p%d", i), "gpu=1 gpumem=20000 gpucores=25"), "n")
	}
	for i := range 10 {
		plain := podOf(fmt.Sprintf("plain%d", i), "cpu=1")
		plain.Spec.NodeName = "n"
		f.infos["n"].AddPodInfo(podInfo(plain))
	}
	pod, state := podOf("p", "gpu=1 gpumem=20000 gpucores=25"), framework.NewCycleState()
	f.k.PreFilter(f.ctx, state, pod, nil)
	b.ReportAllocs()
	for b.Loop() {
		if status := f.k.Filter(f.ctx, state, pod, f.infos["n"]); !status.IsSuccess() {
			b.Fatal(status)
		}
	}
}
