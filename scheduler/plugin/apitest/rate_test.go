package apitest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRate (KRUX_RATE=1) measures pods bound in a second: plain ones and such
// with a GPU share, all waiting when the scheduler starts.
func TestRate(t *testing.T) {
	if os.Getenv("KRUX_RATE") == "" {
		t.Skip("set KRUX_RATE=1 to measure")
	}
	const nodes, pods = 200, 2000
	for i := range nodes {
		addNode(t, fmt.Sprintf("r%d", i), 80000, 80000, 80000, 80000, 80000, 80000, 80000, 80000)
	}
	for range 2 {
		for _, text := range []string{"", "gpu=1 gpumem=20000 gpucores=25"} {
			plane.killScheduler()
			createMany(t, text, pods)
			watch, err := client(t, "admin").CoreV1().Pods("default").Watch(context.Background(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := plane.startScheduler(); err != nil {
				t.Fatal(err)
			}
			begin, bound := time.Time{}, map[string]bool{}
			for event := range watch.ResultChan() {
				if pod, ok := event.Object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
					if len(bound) == 0 {
						begin = time.Now()
					}
					if bound[pod.Name] = true; len(bound) == pods {
						break
					}
				}
			}
			watch.Stop()
			t.Logf("%q: %.0f pods/s", text, pods/time.Since(begin).Seconds())
			now := int64(0)
			_ = client(t, "admin").CoreV1().Pods("default").DeleteCollection(context.Background(),
				metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
		}
	}
}

func createMany(t *testing.T, text string, count int) {
	t.Helper()
	tenant := client(t, "tenant")
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for i := worker; i < count; i += 8 {
				pod := podOn("", fmt.Sprintf("p%d", i), text)
				pod.Spec.NodeSelector = nil
				if _, err := tenant.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}
