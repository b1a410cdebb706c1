package apitest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTwoPodsShareAGPUAndTheThirdWaits(t *testing.T) {
	addNode(t, "n1", 24576)
	create(t, podOn("n1", "a", "gpu=1 gpumem=12288 gpucores=30"))
	create(t, podOn("n1", "b", "gpu=1 gpumem=12288 gpucores=70"))
	a, b := waitBound(t, "a"), waitBound(t, "b")
	if got := a.Containers["main"][0]; got.UUID != uuidOf(0) || got.MemMiB != 12288 || got.Cores != 30 {
		t.Errorf("a: %+v", got)
	}
	if got := b.Containers["main"][0]; got.UUID != uuidOf(0) || got.Cores != 70 {
		t.Errorf("b: %+v", got)
	}
	create(t, podOn("n1", "c", "gpu=1 gpumem=1000"))
	waitPending(t, "c", "1 node(s) 1000 MiB short on the best GPU")
	remove(t, "a")
	gone := time.Now()
	waitBound(t, "c")
	t.Logf("a deleted pod's share was given out after %v", time.Since(gone).Round(time.Millisecond))
}

func TestReasonsOfPendingPods(t *testing.T) {
	addNode(t, "n2", 1000, 1000)
	create(t, podOn("n2", "half", "gpu=2 gpumem=600 gpucores=60"))
	waitBound(t, "half")
	for name, row := range map[string]struct{ text, part string }{
		"memory":   {"gpu=1 gpumem=700", "1 node(s) 300 MiB short on the best GPU"},
		"cores":    {"gpu=1 gpumem=100 gpucores=50", "1 node(s) 10 percent of GPU time short on the best GPU"},
		"alone":    {"gpu=1", "1 node(s) without a GPU that can be had alone on the best GPU"},
		"size":     {"gpu=1 gpumem=1500", "1 node(s) whose largest GPU has 1000 MiB, 1500 MiB on 1 GPU(s) asked"},
		"count":    {"gpu=3 gpumem=1", "1 node(s) with 2 healthy GPU(s), a container asks for 3"},
		"wrong":    {"gpu=1 gpucores=101", `krux: container "main": krux.io/gpucores is 101: write 1 to 100 percent`},
		"no-gpu":   {"gpumem=100", "add krux.io/gpu: 1"},
		"mib-unit": {"gpu=1 gpumem=4Gi", "write 4096 if you mean that many MiB"},
	} {
		create(t, podOn("n2", name, row.text))
		waitPending(t, name, row.part)
	}
}

func TestKruxNodeChangeWakesWaitingPods(t *testing.T) {
	addNode(t, "n3", 1000)
	create(t, podOn("n3", "big", "gpu=1 gpumem=3000"))
	waitPending(t, "big", "whose largest GPU has 1000 MiB")
	setGPUs(t, "n3", 4000)
	waitBound(t, "big")
}

func TestAnnotationChangeWakesTheWaitingPod(t *testing.T) {
	addNode(t, "n4", 1000)
	pod := podOn("n4", "p", "gpu=1 gpumem=10")
	pod.Annotations = map[string]string{"krux.io/compute-policy": "nonsense"}
	create(t, pod)
	waitPending(t, "p", "use balance, fixed, none")
	patch := []byte(`{"metadata":{"annotations":{"krux.io/compute-policy":"none"}}}`)
	_, err := client(t, "tenant").CoreV1().Pods("default").Patch(context.Background(), "p",
		"application/merge-patch+json", patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitBound(t, "p")
}

func TestNodeTotalsAreInTheNodesStatus(t *testing.T) {
	addNode(t, "n5", 1000, 500)
	eventually(t, "totals", func() error {
		node, err := client(t, "admin").CoreV1().Nodes().Get(context.Background(), "n5", metav1.GetOptions{})
		if err != nil {
			return err
		}
		memory, cores := node.Status.Capacity["krux.io/gpumem"], node.Status.Allocatable["krux.io/gpucores"]
		if memory.Value() != 1500 || cores.Value() != 200 {
			return fmt.Errorf("gpumem %v, gpucores %v", memory.Value(), cores.Value())
		}
		return nil
	})
}

// sums adds up the grants of all bound pods on the node by GPU, and fails on an
// over-commitment.
func checkSums(t *testing.T, node string, gpuMiB uint64) (bound int) {
	t.Helper()
	pods, err := client(t, "admin").CoreV1().Pods("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	memory, cores := map[string]uint64{}, map[string]int{}
	for _, pod := range pods.Items {
		if pod.Spec.NodeName != node {
			continue
		}
		bound++
		for _, gpus := range waitBound(t, pod.Name).Containers {
			for _, gpu := range gpus {
				memory[gpu.UUID] += gpu.MemMiB
				cores[gpu.UUID] += gpu.Cores
			}
		}
	}
	for uuid, mib := range memory {
		if mib > gpuMiB || cores[uuid] > 100 {
			t.Fatalf("GPU %s: %d MiB, %d%% of time", uuid, mib, cores[uuid])
		}
	}
	return bound
}

func TestSchedulerKilledWhilePodsArriveNeverOvercommits(t *testing.T) {
	addNode(t, "n6", 1000, 1000, 1000, 1000)
	for i := range 30 {
		create(t, podOn("n6", fmt.Sprintf("p%d", i), "gpu=1 gpumem=300 gpucores=30"))
		if i%10 == 5 {
			plane.KillScheduler()
			if err := startScheduler(); err != nil {
				t.Fatal(err)
			}
		}
	}
	const room = 4 * 3
	eventually(t, "the room is used", func() error {
		if bound := checkSums(t, "n6", 1000); bound != room {
			return fmt.Errorf("%d of %d pods are bound", bound, room)
		}
		return nil
	})
}

func TestHundredPodsToOneNode(t *testing.T) {
	addNode(t, "n7", 100000, 100000)
	begin := time.Now()
	for i := range 100 {
		create(t, podOn("n7", fmt.Sprintf("p%d", i), "gpu=1 gpumem=2000 gpucores=2"))
	}
	eventually(t, "all are bound", func() error {
		if bound := checkSums(t, "n7", 100000); bound != 100 {
			return fmt.Errorf("%d are bound", bound)
		}
		return nil
	})
	t.Logf("100 pods created and bound in %v", time.Since(begin).Round(time.Millisecond))
}

func TestPreemptionFreesAGPUShareAndEvictsNobodyForNothing(t *testing.T) {
	addNode(t, "n8", 1000)
	priorityClass(t, "high", 1000)
	create(t, podOn("n8", "low", "gpu=1 gpumem=800 gpucores=10"))
	waitBound(t, "low")
	never := podOn("n8", "never", "gpu=1 gpumem=1001")
	never.Spec.PriorityClassName = "high"
	create(t, never)
	waitPending(t, "never", "whose largest GPU")
	if pod, err := get(t, "low"); err != nil || pod.DeletionTimestamp != nil {
		t.Fatalf("a pod was evicted for one that can never fit: %v %v", pod, err)
	}
	high := podOn("n8", "high", "gpu=1 gpumem=500 gpucores=10")
	high.Spec.PriorityClassName = "high"
	create(t, high)
	eventually(t, "the low pod is evicted", func() error {
		pod, err := get(t, "low")
		if err == nil && pod.DeletionTimestamp == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
	remove(t, "low") // no kubelet here
	waitBound(t, "high")
}

func TestPlainPodsPassThrough(t *testing.T) {
	addNode(t, "n9")
	create(t, podOn("n9", "plain", ""))
	eventually(t, "bound", func() error {
		pod, err := get(t, "plain")
		if err == nil && pod.Spec.NodeName == "" {
			err = fmt.Errorf("not bound: %s", condition(pod))
		}
		return err
	})
	create(t, podOn("n9", "gpu", "gpu=1"))
	waitPending(t, "gpu", "node(s)")
}

func TestPodsMessageIsInItsEvents(t *testing.T) {
	addNode(t, "n10", 1000)
	create(t, podOn("n10", "wrong", "gpu=1 gpucores=101"))
	waitPending(t, "wrong", "krux.io/gpucores is 101")
	eventually(t, "event", func() error {
		events, err := client(t, "admin").CoreV1().Events("default").List(context.Background(),
			metav1.ListOptions{FieldSelector: "involvedObject.name=wrong"})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Type == v1.EventTypeWarning && strings.Contains(event.Message, "krux.io/gpucores is 101") {
				return nil
			}
		}
		return fmt.Errorf("%d events", len(events.Items))
	})
}

// priorityClass until the end of the test.
func priorityClass(t *testing.T, name string, value int32) {
	t.Helper()
	classes := client(t, "admin").SchedulingV1().PriorityClasses()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	if _, err := classes.Create(context.Background(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = classes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	// Admission reads classes from a cache that follows a moment later.
	eventually(t, "priority class "+name+" is known", func() error {
		pod := podOn("", "probe-"+name, "")
		pod.Spec.PriorityClassName = name
		_, err := tryCreate(t, "default", pod, true)
		return err
	})
}
