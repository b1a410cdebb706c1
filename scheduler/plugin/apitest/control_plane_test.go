package apitest

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"krux.io/krux/tests/controlplane"
)

const (
	root     = "../../.."
	patience = 30 * time.Second
)

var plane *controlplane.Plane

func TestMain(m *testing.M) {
	controlplane.RunAs()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	plane, err = controlplane.New(root)
	if errors.Is(err, controlplane.ErrNotBuilt) {
		fmt.Printf("SKIP: %v\n", err)
		return 0
	}
	if plane != nil {
		defer plane.Stop()
	}
	if err == nil {
		err = startScheduler()
	}
	if err != nil {
		fmt.Printf("FAIL: %v\n", err)
		return 1
	}
	return m.Run()
}

func startScheduler(flags ...string) error {
	config, err := plane.SchedulerConfig()
	if err != nil {
		return err
	}
	return plane.StartScheduler(config, flags...)
}

func client(t *testing.T, token string) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(plane.Config(token))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dynamicClient(t *testing.T, token string) *dynamic.DynamicClient {
	t.Helper()
	c, err := dynamic.NewForConfig(plane.Config(token))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
