package apitest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const forged = `{"v":1}`

func denied(t *testing.T, what string, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%s: got %v, want a refusal with %q", what, err, part)
	}
}

// Policies take effect a moment after they are stored.
func waitGuard(t *testing.T) {
	t.Helper()
	pod := podOn("g", "probe", "gpu=1")
	pod.Annotations = map[string]string{grantAnnotation: forged}
	eventually(t, "guard", func() error {
		_, err := client(t, "tenant").CoreV1().Pods("default").Create(context.Background(), pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "krux.io/grant") {
			return fmt.Errorf("a pod with a forged grant: %v", err)
		}
		return nil
	})
}

func setGrant(c *kubernetes.Clientset, name, subresource, value string) error {
	patch := []byte(`{"metadata":{"annotations":{"krux.io/grant":` + value + `}}}`)
	var subresources []string
	if subresource != "" {
		subresources = []string{subresource}
	}
	_, err := c.CoreV1().Pods("default").Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources...)
	return err
}

func TestGrantIsTheSchedulersAlone(t *testing.T) {
	waitGuard(t)
	addNode(t, "n1", 1000)
	tenant, node, admin := client(t, "tenant"), client(t, "node"), client(t, "admin")
	const text = "the Krux scheduler's alone"

	brought := podOn("n1", "brought", "gpu=1")
	brought.Annotations = map[string]string{grantAnnotation: forged}
	_, err := tenant.CoreV1().Pods("default").Create(context.Background(), brought, metav1.CreateOptions{})
	denied(t, "create with a grant", err, text)

	create(t, podOn("n1", "p", "gpu=1 gpumem=10"))
	waitBound(t, "p")
	denied(t, "tenant changes", setGrant(tenant, "p", "", `"{}"`), text)
	denied(t, "tenant removes", setGrant(tenant, "p", "", "null"), text)
	denied(t, "tenant empties", setGrant(tenant, "p", "", `""`), text)
	denied(t, "admin changes", setGrant(admin, "p", "", `"{}"`), text)
	denied(t, "node changes by status", setGrant(node, "p", "status", `"{}"`), text)
	denied(t, "node removes by status", setGrant(node, "p", "status", "null"), text)
	other := []byte(`{"metadata":{"annotations":{"other":"1"}}}`)
	if _, err := tenant.CoreV1().Pods("default").Patch(context.Background(), "p", types.MergePatchType, other, metav1.PatchOptions{}); err != nil {
		t.Errorf("another annotation: %v", err)
	}
	status := []byte(`{"status":{"phase":"Running"}}`)
	if _, err := node.CoreV1().Pods("default").Patch(context.Background(), "p", types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Errorf("the node's status: %v", err)
	}
}

func TestBindingWithAGrantIsTheSchedulersAlone(t *testing.T) {
	waitGuard(t)
	addNode(t, "n1", 1000)
	pod := podOn("nowhere", "p", "gpu=1")
	pod = create(t, pod)
	admin := client(t, "admin")
	binding := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", Annotations: map[string]string{grantAnnotation: forged}},
		Target:     v1.ObjectReference{Kind: "Node", Name: "n1"},
	}
	const text = "bind without it"
	denied(t, "pods/binding", admin.CoreV1().Pods("default").Bind(context.Background(), binding, metav1.CreateOptions{}), text)
	err := admin.CoreV1().RESTClient().Post().Namespace("default").Resource("bindings").Body(binding).Do(context.Background()).Error()
	denied(t, "bindings", err, text)
	if now, err := get(t, "p"); err != nil || now.Spec.NodeName != "" {
		t.Errorf("pod is on %q, %v", now.Spec.NodeName, err)
	}
	binding.UID = "another"
	err = client(t, "scheduler").CoreV1().Pods("default").Bind(context.Background(), binding, metav1.CreateOptions{})
	denied(t, "scheduler with another UID", err, "UID")
	binding.UID = pod.UID
	if err := client(t, "scheduler").CoreV1().Pods("default").Bind(context.Background(), binding, metav1.CreateOptions{}); err != nil {
		t.Errorf("scheduler: %v", err)
	}
}

func TestPodBornOnANodeIsDenied(t *testing.T) {
	waitGuard(t)
	tenant := client(t, "tenant")
	for _, text := range []string{"gpu=1", "gpumem=1", "gpucores=1"} {
		pod := podOn("n1", "born", text)
		pod.Spec.NodeName = "n1"
		_, err := tenant.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{})
		denied(t, text, err, "remove spec.nodeName")
	}
	initial := podOn("n1", "born", "")
	initial.Spec.NodeName = "n1"
	initial.Spec.InitContainers = podOn("n1", "x", "gpu=1").Spec.Containers
	initial.Spec.InitContainers[0].Name = "init"
	_, err := tenant.CoreV1().Pods("default").Create(context.Background(), initial, metav1.CreateOptions{})
	denied(t, "init container", err, "remove spec.nodeName")
	plain := podOn("n1", "born", "")
	plain.Spec.NodeName = "n1"
	_, err = tenant.CoreV1().Pods("default").Create(context.Background(), plain, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Errorf("plain pod: %v", err)
	}
}

func TestDevicePluginWritesItsOwnKruxNodeOnly(t *testing.T) {
	waitGuard(t)
	nodes := dynamicClient(t, "plugin").Resource(kruxNodes)
	apply := metav1.ApplyOptions{FieldManager: "krux-device-plugin", Force: true}
	if _, err := nodes.Apply(context.Background(), "n1", kruxNode("n1", 1000), apply); err != nil {
		t.Errorf("own: %v", err)
	}
	_, err := nodes.Apply(context.Background(), "n2", kruxNode("n2", 1000), apply)
	denied(t, "another's", err, "of its own node only")
	_, err = dynamicClient(t, "tenant").Resource(kruxNodes).Apply(context.Background(), "n1", kruxNode("n1", 1000), apply)
	denied(t, "tenant", err, "forbidden")
	if err := dynamicClient(t, "admin").Resource(kruxNodes).Delete(context.Background(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
