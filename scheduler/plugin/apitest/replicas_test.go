package apitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two replicas of a second scheduler, under the account and the rights that the
// manifests give: one is leader; when it dies the other goes on. Nothing that
// they ask for is forbidden.
func TestSecondSchedulerInTwoReplicas(t *testing.T) {
	config, err := os.ReadFile(filepath.Join(root, "deploy/config/second-scheduler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(config), "  qps:", fmt.Sprintf("  kubeconfig: %s\n  qps:", plane.Path("second")), 1)
	// Short leases: the test waits for one to run out.
	text = strings.Replace(text, "  leaderElect: true", "  leaderElect: true\n  leaseDuration: 2s\n  renewDeadline: 1500ms\n  retryPeriod: 200ms", 1)
	addNode(t, "h1", 1000, 1000)
	place := func(name string) {
		t.Helper()
		pod := podOn("h1", name, "gpu=1 gpumem=300")
		pod.Spec.SchedulerName = "krux-scheduler"
		create(t, pod)
		waitBound(t, name)
	}
	if err := plane.StartReplica("replica-1", text); err != nil {
		t.Fatal(err)
	}
	place("first")
	if err := plane.StartReplica("replica-2", text); err != nil {
		t.Fatal(err)
	}
	place("second")
	log := plane.KillReplica("replica-1")
	place("third")
	log += plane.KillReplica("replica-2")
	checkSums(t, "h1", 1000)
	for line := range strings.Lines(log) {
		if strings.Contains(line, "forbidden") {
			t.Errorf("the account lacks a right: %s", line)
		}
	}
}
