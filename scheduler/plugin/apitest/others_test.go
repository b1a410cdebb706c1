package apitest

import (
	"context"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// How Krux gets on with the other rules of scheduling.

func patchNode(t *testing.T, name, patch string) {
	t.Helper()
	_, err := client(t, "admin").CoreV1().Nodes().Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// Taints, node affinity and cordoned nodes: the best node for the GPUs is
// another than the one that the pod may have.
func TestOtherRulesDecideToo(t *testing.T) {
	// Tightest first: binpack would take a, then b, then c.
	addNode(t, "ta", 1000)
	addNode(t, "tb", 1000)
	addNode(t, "tc", 1000)
	any := map[string]string{"group": "t"}
	for _, name := range []string{"ta", "tb", "tc"} {
		patchNode(t, name, `{"metadata":{"labels":{"group":"t"}}}`)
	}
	patchNode(t, "ta", `{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`)
	patchNode(t, "tb", `{"spec":{"unschedulable":true}}`)
	pod := podOn("", "taint", "gpu=1 gpumem=400")
	pod.Spec.NodeSelector = any
	create(t, pod)
	if g := waitBound(t, "taint"); g.Node != "tc" {
		t.Errorf("went to %s", g.Node)
	}
	tolerant := podOn("", "tolerant", "gpu=1 gpumem=400")
	tolerant.Spec.NodeSelector = any
	tolerant.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}}
	tolerant.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: "krux-test", Operator: v1.NodeSelectorOpIn, Values: []string{"ta", "tb"}}}}}}}}
	create(t, tolerant)
	if g := waitBound(t, "tolerant"); g.Node != "ta" {
		t.Errorf("went to %s", g.Node)
	}
	full := podOn("", "full", "gpu=1 gpumem=900")
	full.Spec.NodeSelector = any
	create(t, full)
	waitPending(t, "full", "300 MiB short on the best GPU")
}

// A pod whose rules need more than a look at one node is tried on all of them.
func TestPodAffinityIsKept(t *testing.T) {
	addNode(t, "fa", 1000)
	addNode(t, "fb", 1000)
	first := podOn("fb", "first", "")
	first.Labels = map[string]string{"app": "friend"}
	create(t, first)
	pod := podOn("", "second", "gpu=1 gpumem=100")
	pod.Spec.NodeSelector = nil
	pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "friend"}}, TopologyKey: "krux-test"}}}}
	create(t, pod)
	if g := waitBound(t, "second"); g.Node != "fb" {
		t.Errorf("went to %s", g.Node)
	}
}

// Another pod's anti-affinity refuses the best nodes: the pod is tried on all
// nodes, and nobody is evicted although it could be.
func TestBestNodesRefusedByOthersRules(t *testing.T) {
	for i := range 6 {
		name := fmt.Sprintf("aa%d", i)
		addNode(t, name, int64(1000+i))
		guard := podOn(name, "guard-"+name, "gpu=1 gpumem=300")
		if i < 5 {
			guard.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "noisy"}}, TopologyKey: "krux-test"}}}}
		}
		create(t, guard)
		waitBound(t, guard.Name)
	}
	priorityClass(t, "noisy-high", 1000)
	pod := podOn("", "noisy", "gpu=1 gpumem=300")
	pod.Spec.NodeSelector = nil
	pod.Spec.PriorityClassName = "noisy-high"
	pod.Labels = map[string]string{"app": "noisy"}
	create(t, pod)
	if g := waitBound(t, "noisy"); g.Node != "aa5" {
		t.Errorf("went to %s", g.Node)
	}
	for i := range 6 {
		if guard, err := get(t, fmt.Sprintf("guard-aa%d", i)); err != nil || guard.DeletionTimestamp != nil {
			t.Errorf("guard %d was evicted for nothing: %v", i, err)
		}
	}
}

func TestCordonedGPUTakesNobody(t *testing.T) {
	addNode(t, "c1", 1000, 1000)
	annotate := func(value string) {
		t.Helper()
		_, err := dynamicClient(t, "admin").Resource(kruxNodes).Patch(context.Background(), "c1", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"krux.io/cordon":`+value+`}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	annotate(`"` + uuidOf(0) + `"`)
	// The scheduler sees the annotation a moment later.
	eventually(t, "newcomers keep off the cordoned card", func() error {
		create(t, podOn("c1", "a", "gpu=1 gpumem=600"))
		if g := waitBound(t, "a"); g.Containers["main"][0].UUID != uuidOf(1) {
			remove(t, "a")
			return fmt.Errorf("grant: %+v", g)
		}
		return nil
	})
	create(t, podOn("c1", "b", "gpu=1 gpumem=600"))
	waitPending(t, "b", "200 MiB short")
	create(t, podOn("c1", "two", "gpu=2 gpumem=10"))
	waitPending(t, "two", "with 1 healthy GPU(s), a container asks for 2")
	annotate("null")
	waitBound(t, "b")
}

func TestModelsAndUUIDsAreChosen(t *testing.T) {
	addNode(t, "m1", 1000, 1000)
	pod := podOn("m1", "uuid", "gpu=1 gpumem=10")
	pod.Annotations = map[string]string{"krux.io/use-gpu-uuid": uuidOf(1)}
	create(t, pod)
	if g := waitBound(t, "uuid"); g.Containers["main"][0].UUID != uuidOf(1) {
		t.Errorf("grant: %+v", g)
	}
	other := podOn("m1", "model", "gpu=1 gpumem=10")
	other.Annotations = map[string]string{"krux.io/use-gpu-type": "H100"}
	create(t, other)
	waitPending(t, "model", "model")
	_, err := client(t, "tenant").CoreV1().Pods("default").Patch(context.Background(), "model", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"krux.io/use-gpu-type":"TEST"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitBound(t, "model")
}

// A node whose device plugin is not registered shows krux.io/gpu: 0.
func TestNodeWithoutSlotsWaits(t *testing.T) {
	addNode(t, "s1", 1000)
	slots := func(count string) {
		t.Helper()
		patch := fmt.Sprintf(`{"status":{"capacity":{"krux.io/gpu":%q},"allocatable":{"krux.io/gpu":%q}}}`, count, count)
		_, err := client(t, "admin").CoreV1().Nodes().Patch(context.Background(), "s1", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
	slots("0")
	create(t, podOn("s1", "p", "gpu=1 gpumem=10"))
	waitPending(t, "p", "device plugin is not registered")
	slots("16")
	waitBound(t, "p")
}

// A pod with a device of dynamic resource allocation behind an extended
// resource, and a GPU share.
func TestPodWithADeviceOfDynamicResourceAllocation(t *testing.T) {
	addNode(t, "d1", 1000)
	admin, ctx := client(t, "admin").ResourceV1(), context.Background()
	nic := "example.com/nic"
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "nic"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &nic}}
	if _, err := admin.DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	node := "d1"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "nics"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "nic.example.com", NodeName: &node, Devices: []resourcev1.Device{{Name: "nic0"}},
		Pool: resourcev1.ResourcePool{Name: "d1", ResourceSliceCount: 1, Generation: 1}}}
	if _, err := admin.ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.DeviceClasses().Delete(ctx, "nic", metav1.DeleteOptions{})
		_ = admin.ResourceSlices().Delete(ctx, "nics", metav1.DeleteOptions{})
	})
	pod := podOn("d1", "both", "gpu=1 gpumem=400 gpucores=10")
	pod.Spec.Containers[0].Resources.Limits[v1.ResourceName(nic)] = resource.MustParse("1")
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceName(nic)] = resource.MustParse("1")
	create(t, pod)
	if g := waitBound(t, "both"); g.Containers["main"][0].MemMiB != 400 {
		t.Errorf("grant: %+v", g)
	}
	claims, err := admin.ResourceClaims("default").List(ctx, metav1.ListOptions{})
	if err != nil || len(claims.Items) != 1 || claims.Items[0].Status.Allocation == nil {
		t.Errorf("claims: %+v, %v", claims, err)
	}
}

// A gang of 4 x 2 whole GPUs beside fractional pods: all or nothing.
func TestGangOfPodsWithGPUs(t *testing.T) {
	plane.KillScheduler()
	if err := startScheduler("--feature-gates", "GenericWorkload=true"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		plane.KillScheduler()
		if err := startScheduler(); err != nil {
			t.Fatal(err)
		}
	}()
	addNode(t, "g1", 1000, 1000, 1000, 1000, 1000, 1000)
	addNode(t, "g2", 1000, 1000, 1000, 1000)
	for _, name := range []string{"g1", "g2"} {
		patchNode(t, name, `{"metadata":{"labels":{"group":"g"}}}`)
	}
	inGroup := func(name, text string) *v1.Pod {
		pod := podOn("", name, text)
		pod.Spec.NodeSelector = map[string]string{"group": "g"}
		return pod
	}
	for i := range 3 {
		create(t, inGroup(fmt.Sprintf("share%d", i), "gpu=1 gpumem=300"))
		waitBound(t, fmt.Sprintf("share%d", i))
	}
	create(t, inGroup("blocker", "gpu=2 gpumem=1000"))
	waitBound(t, "blocker")
	gang := "gang"
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: gang, Namespace: "default"}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 4}
	groups := client(t, "admin").SchedulingV1beta1().PodGroups("default")
	if _, err := groups.Create(context.Background(), group, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = groups.Delete(context.Background(), gang, metav1.DeleteOptions{}) }()
	for i := range 4 {
		pod := inGroup(fmt.Sprintf("gang%d", i), "gpu=2")
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &gang}
		create(t, pod)
	}
	// 10 GPUs, one has shares, two are taken: 7 are left for 8.
	waitPending(t, "gang0", "minCount (4) cannot be satisfied: 3 scheduled")
	for i := range 4 {
		if pod, err := get(t, fmt.Sprintf("gang%d", i)); err != nil || pod.Spec.NodeName != "" {
			t.Fatalf("gang%d is bound while the gang does not fit: %v", i, err)
		}
	}
	remove(t, "blocker")
	seen := map[string]bool{}
	for i := range 4 {
		g := waitBound(t, fmt.Sprintf("gang%d", i))
		for _, gpu := range g.Containers["main"] {
			key := g.Node + gpu.UUID
			if seen[key] {
				t.Errorf("%s is granted twice", key)
			}
			seen[key] = true
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d GPUs", len(seen))
	}
	for _, name := range []string{"share0", "share1", "share2"} {
		if pod, err := get(t, name); err != nil || pod.DeletionTimestamp != nil {
			t.Errorf("%s was evicted: %v", name, err)
		}
	}
}
