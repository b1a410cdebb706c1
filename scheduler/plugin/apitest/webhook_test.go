package apitest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// create or dry-run in a namespace, as a tenant.
func tryCreate(t *testing.T, namespace string, pod *v1.Pod, dry bool) (*v1.Pod, error) {
	t.Helper()
	options := metav1.CreateOptions{}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return client(t, "tenant").CoreV1().Pods(namespace).Create(context.Background(), pod, options)
}

// startWebhook until the end of the test; on return it answers.
func startWebhook(t *testing.T, flags ...string) {
	t.Helper()
	if err := plane.StartWebhook(flags...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		plane.KillWebhook()
		if _, err := plane.Kubectl("delete", "mutatingwebhookconfiguration", "krux", "--ignore-not-found"); err != nil {
			t.Error(err)
		}
	})
	waitWebhook(t)
}

// The registration reaches the API server's cache a moment after it is stored.
func waitWebhook(t *testing.T) {
	t.Helper()
	eventually(t, "webhook answers", func() error {
		_, err := tryCreate(t, "default", podOn("w", "probe", "gpu=1 gpucores=101"), true)
		if err == nil || !strings.Contains(err.Error(), "gpucores is 101: write 1 to 100 percent") {
			return fmt.Errorf("a pod with 101 percent: %v", err)
		}
		return nil
	})
}

func TestWebhookCompletesPods(t *testing.T) {
	addNode(t, "w1", 1000)
	startWebhook(t)
	create(t, podOn("w1", "p", "gpumem=400 gpucores=20"))
	if g := waitBound(t, "p"); g.Containers["main"][0].MemMiB != 400 {
		t.Errorf("grant: %+v", g)
	}
	pod, err := get(t, "p")
	if err != nil || pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName != "krux" {
		t.Errorf("RuntimeClass: %v, %v", pod.Spec.RuntimeClassName, err)
	}
	total := pod.Spec.Containers[0].Resources.Requests["krux.io/gpumem-total"]
	if total.Value() != 400 {
		t.Errorf("total %v", total.Value())
	}
	// A pod for the whole card: charged in percent of the largest card, fits nevertheless.
	remove(t, "p")
	create(t, podOn("w1", "whole", "gpu=1"))
	waitBound(t, "whole")
	eventually(t, "more than any card is denied", func() error {
		_, err := tryCreate(t, "default", podOn("w1", "big", "gpu=1 gpumem=999999"), true)
		if err == nil || !strings.Contains(err.Error(), "the largest GPU of this cluster has") {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

func TestPodsForHAMiRunThroughTheWebhook(t *testing.T) {
	addNode(t, "w2", 10000)
	startWebhook(t, "--profiles", "hami")
	pod := podOn("w2", "hami", "")
	list := v1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": resource.MustParse("3000"),
		"nvidia.com/gpucores": resource.MustParse("30")}
	pod.Spec.Containers[0].Resources.Limits = list
	pod.Spec.SchedulerName = "hami-scheduler"
	pod.Annotations = map[string]string{"nvidia.com/use-gputype": "TEST", "hami.io/gpu-scheduler-policy": "spread"}
	create(t, pod)
	if g := waitBound(t, "hami").Containers["main"][0]; g.MemMiB != 3000 || g.Cores != 30 {
		t.Errorf("grant: %+v", g)
	}
}

// While the webhook is down, slow or not believed: plain pods are created as
// ever, GPU pods are refused and never let through unchecked.
func TestWithoutTheWebhookOnlyGPUPodsAreRefused(t *testing.T) {
	startWebhook(t)
	check := func(state string) {
		t.Helper()
		if _, err := tryCreate(t, "default", podOn("w", "plain", ""), true); err != nil {
			t.Errorf("%s: a plain pod: %v", state, err)
		}
		if _, err := tryCreate(t, "default", podOn("w", "gpu", "gpu=1 gpumem=10"), true); err == nil || !strings.Contains(err.Error(), "pods.krux.io") {
			t.Errorf("%s: a GPU pod: %v", state, err)
		}
	}
	plane.KillWebhook()
	check("down")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	redirect := func(operations string) {
		t.Helper()
		_, err := client(t, "admin").AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(context.Background(), "krux",
			types.JSONPatchType, []byte(operations), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	redirect(fmt.Sprintf(`[{"op":"replace","path":"/webhooks/0/clientConfig/url","value":"https://%s/pods"},
		{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":1}]`, silent.Addr()))
	check("silent")
	if err := plane.StartWebhook(); err != nil { // it puts its registration right by itself
		t.Fatal(err)
	}
	waitWebhook(t)
	if _, err := tryCreate(t, "default", podOn("w", "gpu", "gpu=1 gpumem=10"), true); err != nil {
		t.Errorf("up again: %v", err)
	}
}

// quotaNamespace plays the quota controller's part, which does not run here.
func quotaNamespace(t *testing.T, name string, hard v1.ResourceList) {
	t.Helper()
	admin, ctx := client(t, "admin").CoreV1(), context.Background()
	if _, err := admin.Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	quota := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: v1.ResourceQuotaSpec{Hard: hard}}
	quota, err := admin.ResourceQuotas(name).Create(ctx, quota, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	quota.Status = v1.ResourceQuotaStatus{Hard: hard, Used: v1.ResourceList{}}
	for key := range hard {
		quota.Status.Used[key] = resource.MustParse("0")
	}
	if _, err := admin.ResourceQuotas(name).UpdateStatus(ctx, quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	t.Cleanup(func() {
		_ = admin.Pods(name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
		_ = admin.ResourceQuotas(name).Delete(ctx, "gpus", metav1.DeleteOptions{})
	})
}

func podIn(namespace, name, text string) *v1.Pod {
	pod := podOn("nowhere", name, text)
	pod.Namespace = namespace
	return pod
}

func TestQuotaCountsWhatIsUsed(t *testing.T) {
	startWebhook(t)
	quotaNamespace(t, "quota", v1.ResourceList{"requests.krux.io/gpumem-total": resource.MustParse("10000")})
	create := func(name, text string) error {
		_, err := tryCreate(t, "quota", podIn("quota", name, text), false)
		return err
	}
	eventually(t, "quota is known", func() error {
		if err := create("two-cards", "gpu=2 gpumem=6000"); err == nil || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Errorf("2 x 6000 of 10000: %v", err)
		}
		return nil
	})
	denied(t, "2 x 6000", create("two-cards", "gpu=2 gpumem=6000"), "requested: requests.krux.io/gpumem-total=12k, used: requests.krux.io/gpumem-total=0, limited: requests.krux.io/gpumem-total=10k")
	if err := create("one", "gpu=1 gpumem=7000"); err != nil {
		t.Error(err)
	}
	denied(t, "2 x 2000 beside 7000", create("more", "gpu=2 gpumem=2000"), "exceeded quota")
	// Twenty at once: exactly three have room.
	var admitted atomic.Int32
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			if create(fmt.Sprintf("p%d", i), "gpu=1 gpumem=1000") == nil {
				admitted.Add(1)
			}
		})
	}
	wait.Wait()
	if got := admitted.Load(); got != 3 {
		t.Errorf("%d pods of 1000 MiB were admitted beside 7000 of 10000", got)
	}
}

func TestWaysRoundTheLimitsAreDenied(t *testing.T) {
	waitGuard(t)
	yes, nvidia := true, "nvidia"
	classes := client(t, "admin").NodeV1().RuntimeClasses()
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: nvidia}, Handler: nvidia}
	if _, err := classes.Create(context.Background(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = classes.Delete(context.Background(), nvidia, metav1.DeleteOptions{}) }()
	for what, row := range map[string]struct {
		text string
		edit func(*v1.Pod)
		part string
	}{
		"privileged": {"gpu=1", func(p *v1.Pod) {
			p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: &yes}
		}, "can not have a privileged container"},
		"hostPath": {"", func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/dev/nvidia0"}}}}
		}, "hostPath /dev/nvidia*"},
		"environment": {"", func(p *v1.Pod) {
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}
		}, "NVIDIA_VISIBLE_DEVICES in a pod"},
		"class": {"", func(p *v1.Pod) { p.Spec.RuntimeClassName = &nvidia }, "runtimeClassName nvidia"},
	} {
		pod := podOn("w", "round", row.text)
		row.edit(pod)
		_, err := tryCreate(t, "default", pod, true)
		denied(t, what, err, row.part)
	}
	if _, err := tryCreate(t, "default", podOn("w", "plain", ""), true); err != nil {
		t.Errorf("a plain pod: %v", err)
	}
}

func TestNobodyElseTakesKruxNames(t *testing.T) {
	waitGuard(t)
	_, err := plane.Kubectl("create", "--dry-run=server", "-f", "testdata/device_class.yaml")
	denied(t, "DeviceClass", err, "names that begin with krux.io/ are Krux's")
}
