package plugin

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Faults that users of other systems reported, as tests of the same kind; the
// whole list with all tests is docs/reports-scheduling.md.

// A bind is refused, and the pod goes to another node: its grant names that one.
func TestRefusedBindLeavesNothingBehind(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"a": {1000}, "b": {1000}})
	pod := podOf("p", "gpu=1 gpumem=600")
	state := f.place(pod, "a")
	f.k.Unreserve(f.ctx, state, pod, "a")
	f.forget(pod)
	f.place(pod, "b")
	if g := f.grantOf(pod); g.Node != "b" {
		t.Errorf("the grant names %s", g.Node)
	}
	f.place(podOf("q", "gpu=1 gpumem=1000"), "a")
}

// 24 pods of 2000 MiB do not fit into 46068 MiB; sums are integers.
func TestSumsAreNotRounded(t *testing.T) {
	for _, row := range []struct {
		card, pod uint64
		fit       int
	}{{46068, 2000, 23}, {46068, 46068, 1}, {46068, 46069, 0}, {143771, 35943, 3}, {143771, 35942, 4}, {3, 1, 3}} {
		f := newFixture(t, map[string][]uint64{"n": {row.card}})
		f.addNode("n", 128)
		placed := 0
		for i := range row.fit + 1 {
			if _, status := f.tryPlace(podOf(fmt.Sprintf("p%d", i), fmt.Sprintf("gpu=1 gpumem=%d", row.pod)), "n"); status.IsSuccess() {
				placed++
			}
		}
		if placed != row.fit {
			t.Errorf("%d MiB on %d MiB: %d fit, want %d", row.pod, row.card, placed, row.fit)
		}
	}
}

// A pod that is being deleted holds its cards until it is gone.
func TestTerminatingPodsStillCount(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000, 1000}})
	old := f.bound(f.placed("old", "gpu=2", "n"))
	now := metav1.Now()
	old.DeletionTimestamp = &now
	f.show(old)
	f.refused(podOf("new", "gpu=1 gpumem=1"), "n")
	f.forget(old)
	f.k.podGone(old)
	f.place(podOf("new", "gpu=2"), "n")
}

// The event of a deletion is lost: what counts are the pods that are there.
func TestMissedDeletionBlocksNobody(t *testing.T) {
	f := newFixture(t, map[string][]uint64{"n": {1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000}})
	old := f.placed("old", "gpu=8", "n")
	shown := f.bound(old)
	f.show(shown)
	f.k.podChanged(old, shown)
	f.forget(shown) // by a relist; podGone is never called
	f.place(podOf("new", "gpu=8"), "n")
}

// Containers of 10 and 1 GiB on two cards of 10 GiB, in both orders.
func TestContainersOfOnePodAreCountedStepByStep(t *testing.T) {
	for _, texts := range [][]string{{"gpu=1 gpumem=10240", "gpu=1 gpumem=1024"}, {"gpu=1 gpumem=1024", "gpu=1 gpumem=10240"}} {
		f := newFixture(t, map[string][]uint64{"n": {10240, 10240}})
		pod := podOf("p", texts...)
		f.place(pod, "n")
		g := f.grantOf(pod)
		if g.Containers["c0"][0].UUID == g.Containers["c1"][0].UUID {
			t.Errorf("%v: both are on %s", texts, g.Containers["c0"][0].UUID)
		}
	}
}
