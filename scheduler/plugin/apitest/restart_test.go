package apitest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The scheduler is killed and started again at random moments while pods come
// and go (KRUX_RESTARTS of them, 10 when it is not set). No GPU is
// ever granted twice, and in the end all room is used.
func TestSchedulerRestartedAtRandomMoments(t *testing.T) {
	restarts := 10
	if text := os.Getenv("KRUX_RESTARTS"); text != "" {
		var err error
		if restarts, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	const gpus, gpuMiB, podMiB = 4, 1000, 300
	const room = gpus * (gpuMiB / podMiB)
	addNode(t, "rr", gpuMiB, gpuMiB, gpuMiB, gpuMiB)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan error, 1)
	go func() { watched <- neverTwice(ctx, t, "rr", gpuMiB) }()
	next := 0
	churn := func() {
		for range 4 {
			create(t, podOn("rr", fmt.Sprintf("rr%d", next), fmt.Sprintf("gpu=1 gpumem=%d gpucores=30", podMiB)))
			next++
		}
		if next > room {
			for range 4 {
				remove(t, fmt.Sprintf("rr%d", random.IntN(next)))
			}
		}
	}
	for range restarts {
		churn()
		// A moment of the scheduler's life, from before its first list to after its last bind.
		pause(ctx, time.Duration(random.IntN(700))*time.Millisecond)
		plane.KillScheduler()
		churn()
		if err := startScheduler(); err != nil {
			t.Fatal(err)
		}
	}
	for range room {
		create(t, podOn("rr", fmt.Sprintf("rr%d", next), fmt.Sprintf("gpu=1 gpumem=%d gpucores=30", podMiB)))
		next++
	}
	eventually(t, "all room is used", func() error {
		if bound := checkSums(t, "rr", gpuMiB); bound != room {
			return fmt.Errorf("%d of %d pods are bound", bound, room)
		}
		return nil
	})
	cancel()
	if err := <-watched; err != nil {
		t.Fatal(err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// neverTwice follows every change of the node's pods, and fails when the grants
// that are in force at a moment exceed a GPU.
func neverTwice(ctx context.Context, t *testing.T, node string, gpuMiB uint64) error {
	pods, err := client(t, "admin").CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer pods.Stop()
	held := map[string]grant{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-pods.ResultChan():
			if !ok {
				return fmt.Errorf("the watch ended")
			}
			if err := follow(held, event, node, gpuMiB); err != nil {
				return err
			}
		}
	}
}
