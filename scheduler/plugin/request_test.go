package plugin

import (
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// limits reads "gpu=1 gpumem=4096"; a name without krux.io/ is completed.
func limits(text string) v1.ResourceList {
	list := v1.ResourceList{}
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		if name != "cpu" {
			name = "krux.io/" + name
		}
		list[v1.ResourceName(name)] = resource.MustParse(value)
	}
	return list
}

// podOf has one app container per text.
func podOf(name string, texts ...string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace = name, "default"
	pod.UID = types.UID("uid-" + name)
	for i, text := range texts {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name:      "c" + strconv.Itoa(i),
			Resources: v1.ResourceRequirements{Limits: limits(text), Requests: limits(text)},
		})
	}
	return pod
}

func annotated(pod *v1.Pod, pairs ...string) *v1.Pod {
	pod.Annotations = map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		pod.Annotations[pairs[i]] = pairs[i+1]
	}
	return pod
}

// Odd requests each have one documented meaning or are refused with a sentence
// that says what to write. want: "" = not a Krux pod, "ok: …" = the request of
// each container as gpus/MiB/percent/cores, else a part of the refusal.
func TestManifests(t *testing.T) {
	many := make([]string, 65)
	for i := range many {
		many[i] = "gpu=1 gpumem=1"
	}
	rows := []struct {
		what string
		pod  *v1.Pod
		want string
	}{
		{"nothing", podOf("p", ""), ""},
		{"only cpu", podOf("p", "cpu=1"), ""},
		{"no containers", podOf("p"), ""},
		{"zero GPUs", podOf("p", "gpu=0"), ""},
		{"one GPU", podOf("p", "gpu=1"), "ok: 1/0/0/100"},
		{"two GPUs", podOf("p", "gpu=2"), "ok: 2/0/0/100"},
		{"sixteen GPUs", podOf("p", "gpu=16"), "ok: 16/0/0/100"},
		{"seventeen GPUs", podOf("p", "gpu=17"), "1 to 16 GPUs"},
		{"whole GPU, half its time", podOf("p", "gpu=1 gpucores=50"), "ok: 1/0/0/50"},
		{"memory", podOf("p", "gpu=1 gpumem=4096"), "ok: 1/4096/0/0"},
		{"memory and cores", podOf("p", "gpu=1 gpumem=4096 gpucores=30"), "ok: 1/4096/0/30"},
		{"smallest", podOf("p", "gpu=1 gpumem=1 gpucores=1"), "ok: 1/1/0/1"},
		{"all cores", podOf("p", "gpu=1 gpumem=1 gpucores=100"), "ok: 1/1/0/100"},
		{"largest memory", podOf("p", "gpu=1 gpumem=16777216"), "ok: 1/16777216/0/0"},
		{"too large", podOf("p", "gpu=1 gpumem=16777217"), "more than any GPU has"},
		{"4k is 4000", podOf("p", "gpu=1 gpumem=4k"), "ok: 1/4000/0/0"},
		{"4Gi is not 4 GiB", podOf("p", "gpu=1 gpumem=4Gi"), "write 4096 if you mean that many MiB"},
		{"percent", podOf("p", "gpu=1 gpumem-percentage=50"), "ok: 1/0/50/0"},
		{"all percent", podOf("p", "gpu=1 gpumem-percentage=100"), "ok: 1/0/100/0"},
		{"percent of two", podOf("p", "gpu=2 gpumem-percentage=1 gpucores=1"), "ok: 2/0/1/1"},
		{"zero memory", podOf("p", "gpu=1 gpumem=0"), "write the MiB for each GPU"},
		{"zero percent", podOf("p", "gpu=1 gpumem-percentage=0"), "1 to 100 percent"},
		{"101 percent", podOf("p", "gpu=1 gpumem-percentage=101"), "1 to 100 percent"},
		{"zero cores", podOf("p", "gpu=1 gpucores=0"), "1 to 100 percent"},
		{"101 cores", podOf("p", "gpu=1 gpucores=101"), "1 to 100 percent"},
		{"MiB and percent", podOf("p", "gpu=1 gpumem=100 gpumem-percentage=10"), "keep one of them"},
		{"only memory", podOf("p", "gpumem=4096"), "add krux.io/gpu: 1"},
		{"only percent", podOf("p", "gpumem-percentage=10"), "add krux.io/gpu: 1"},
		{"only cores", podOf("p", "gpucores=10"), "add krux.io/gpu: 1"},
		{"zero GPUs with memory", podOf("p", "gpu=0 gpumem=4096"), "write krux.io/gpu: 1"},
		{"GPU, none, GPU", podOf("p", "gpu=1 gpumem-percentage=50", "cpu=1", "gpu=1 gpumem=2000"), "ok: 1/0/50/0 1/2000/0/0"},
		{"second container wrong", podOf("p", "gpu=1", "gpu=1 gpucores=200"), `container "c1"`},
		{"65 containers", podOf("p", many...), "at most 64"},
		{"64 containers", podOf("p", many[:64]...), "ok:" + strings.Repeat(" 1/1/0/0", 64)},
		{"fixed", annotated(podOf("p", "gpu=1 gpumem=1 gpucores=5"), annotationPolicy, "fixed"), "ok: 1/1/0/5"},
		{"fixed on a whole GPU", annotated(podOf("p", "gpu=1"), annotationPolicy, "fixed"), "ok: 1/0/0/100"},
		{"fixed without cores", annotated(podOf("p", "gpu=1 gpumem=1"), annotationPolicy, "fixed"), "needs krux.io/gpucores"},
		{"none", annotated(podOf("p", "gpu=1 gpumem=1"), annotationPolicy, "none"), "ok: 1/1/0/0"},
		{"unknown policy", annotated(podOf("p", "gpu=1"), annotationPolicy, "Fixed"), "use balance, fixed, none"},
		{"empty policy", annotated(podOf("p", "gpu=1"), annotationPolicy, ""), "use balance, fixed, none"},
		{"unknown priority", annotated(podOf("p", "gpu=1"), annotationPriority, "high"), "use latency, normal, batch"},
		{"policy without GPU", annotated(podOf("p", "cpu=1"), annotationPolicy, "nonsense"), ""},
		{"grant brought along", annotated(podOf("p", "gpu=1"), annotationGrant, "{}"), "the scheduler's alone"},
		{"no room for the grant", annotated(podOf("p", "gpu=1"), "a", strings.Repeat("x", 262000)), "make them shorter"},
		{"room for the grant", annotated(podOf("p", "gpu=1"), "a", strings.Repeat("x", 260000)), "ok: 1/0/0/100"},
	}
	for _, row := range rows {
		t.Run(row.what, func(t *testing.T) {
			r, err := parseRequest(row.pod, policies{})
			if err == nil && r != nil {
				err = r.checkUnbound(row.pod)
			}
			checkManifest(t, r, err, row.want)
		})
	}
}

func checkManifest(t *testing.T, r *request, err error, want string) {
	t.Helper()
	accepted, isAccepted := strings.CutPrefix(want, "ok:")
	switch {
	case want == "" || isAccepted:
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		got := ""
		if r != nil {
			got = describe(r)
		}
		if got != strings.TrimSpace(accepted) {
			t.Fatalf("got %q, want %q", got, strings.TrimSpace(accepted))
		}
	case err == nil || !strings.Contains(err.Error(), want):
		t.Fatalf("got %v, want a refusal with %q", err, want)
	}
}

func describe(r *request) string {
	var parts []string
	for _, c := range r.containers {
		numbers := []string{
			strconv.Itoa(int(c.c.gpus)), strconv.FormatUint(uint64(c.c.memory_mib), 10),
			strconv.Itoa(int(c.c.memory_percent)), strconv.Itoa(int(c.c.cores)),
		}
		parts = append(parts, strings.Join(numbers, "/"))
	}
	return strings.Join(parts, " ")
}

func TestInitContainersAndSidecarsAreToldApart(t *testing.T) {
	pod := podOf("p", "gpu=1 gpumem=1")
	always := v1.ContainerRestartPolicyAlways
	resources := v1.ResourceRequirements{Limits: limits("gpu=1 gpumem=1")}
	pod.Spec.InitContainers = []v1.Container{
		{Name: "init", Resources: resources},
		{Name: "side", Resources: resources, RestartPolicy: &always},
	}
	r, err := parseRequest(pod, policies{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name string
		kind uint32
	}{{"init", kindInit}, {"side", kindSidecar}, {"c0", kindApp}} {
		if got := r.containers[i]; got.name != want.name || uint32(got.c.kind) != want.kind {
			t.Errorf("container %d: got %s of kind %d, want %+v", i, got.name, got.c.kind, want)
		}
	}
}
