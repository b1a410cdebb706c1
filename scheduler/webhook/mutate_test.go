package webhook

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// podOf has one container a text: "gpu=1 gpumem=4096"; a name without a domain
// is Krux's.
func podOf(texts ...string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name = "p"
	pod.Spec.SchedulerName = v1.DefaultSchedulerName
	for i, text := range texts {
		c := v1.Container{Name: string(rune('a' + i))}
		for field := range strings.FieldsSeq(text) {
			name, value, _ := strings.Cut(field, "=")
			if !strings.Contains(name, "/") && name != "cpu" {
				name = "krux.io/" + name
			}
			set(&c, v1.ResourceName(name), resource.MustParse(value))
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// text of a container's resources, sorted.
func textOf(c *v1.Container) string {
	var words []string
	for name, q := range c.Resources.Limits {
		words = append(words, strings.TrimPrefix(string(name), "krux.io/")+"="+q.String())
	}
	return strings.Join(slices.Sorted(slices.Values(words)), " ")
}

func newRules(t *testing.T, profiles ...string) *rules {
	t.Helper()
	chosen, err := chooseProfiles(profiles)
	if err != nil {
		t.Fatal(err)
	}
	return &rules{profiles: chosen, largest: func() uint64 { return 80000 }}
}

// want: the resources afterwards, or "denied: " and a part of the sentence.
func TestPodsAreCompletedOrDenied(t *testing.T) {
	for text, want := range map[string]string{
		"cpu=1":                              "cpu=1",
		"gpu=1":                              "gpu=1 gpucores-total=100 gpumem-total=80k",
		"gpu=2 gpumem=6000 gpucores=30":      "gpu=2 gpucores-total=60 gpucores=30 gpumem-total=12k gpumem=6k",
		"gpu=1 gpumem-percentage=50":         "gpu=1 gpumem-percentage=50 gpumem-total=40k",
		"gpumem=1000":                        "gpu=1 gpumem-total=1k gpumem=1k",
		"gpucores=10":                        "gpu=1 gpucores-total=10 gpucores=10 gpumem-total=80k",
		"gpu=0":                              "gpu=0",
		"gpu=1 gpumem=80001":                 "denied: the largest GPU of this cluster has 80000 MiB",
		"gpu=1 gpumem=0":                     "denied: krux.io/gpumem is 0",
		"gpu=1 gpumem-percentage=0":          "denied: gpumem-percentage is 0",
		"gpu=1 gpumem-percentage=101":        "denied: gpumem-percentage is 101",
		"gpu=1 gpumem=1 gpumem-percentage=1": "denied: gpumem-percentage",
		"gpu=1 gpucores=0":                   "denied: gpucores is 0",
		"gpu=1 gpucores=101":                 "denied: gpucores is 101",
		"gpu=17":                             "denied: 1 to 16 GPUs",
		"gpu=1 gpumemory=100":                "denied: there is no resource krux.io/gpumemory",
		"gpu=1 gpumem=4Gi":                   "denied: write 4096 if you mean that many MiB",
		// What users write there does not count.
		"gpu=1 gpumem=1000 gpumem-total=1": "gpu=1 gpumem-total=1k gpumem=1k",
	} {
		pod := podOf(text)
		_, err := newRules(t).admit(pod)
		got := textOf(&pod.Spec.Containers[0])
		if part, denied := strings.CutPrefix(want, "denied: "); denied {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q: got %v, want a denial with %q", text, err, part)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
		if !maps.Equal(pod.Spec.Containers[0].Resources.Limits, pod.Spec.Containers[0].Resources.Requests) {
			t.Errorf("%q: limits and requests differ", text)
		}
		if asks := strings.HasPrefix(want, "gpu=1") || strings.HasPrefix(want, "gpu=2"); asks != (pod.Spec.RuntimeClassName != nil) {
			t.Errorf("%q: RuntimeClass %v", text, pod.Spec.RuntimeClassName)
		}
	}
}

func TestRuntimeClassAndScheduler(t *testing.T) {
	r := newRules(t)
	r.scheduler = "krux-scheduler"
	pod, nvidia := podOf("gpu=1"), "nvidia"
	if _, err := r.admit(pod); err != nil || *pod.Spec.RuntimeClassName != "krux" || pod.Spec.SchedulerName != "krux-scheduler" {
		t.Errorf("%v %+v", err, pod.Spec)
	}
	pod.Spec.RuntimeClassName = &nvidia
	if _, err := r.admit(pod); err == nil || !strings.Contains(err.Error(), "runs in RuntimeClass krux") {
		t.Errorf("got %v", err)
	}
	other := podOf("gpu=1")
	other.Spec.SchedulerName = "volcano"
	if _, err := r.admit(other); err != nil || other.Spec.SchedulerName != "volcano" {
		t.Errorf("another scheduler: %v %q", err, other.Spec.SchedulerName)
	}
}

func TestAnnotationsAreChecked(t *testing.T) {
	for name, row := range map[string]struct{ value, part string }{
		"krux.io/compute-policy": {"greedy", "use balance, fixed, none"},
		"krux.io/priority":       {"9", "use latency, normal, batch"},
		"krux.io/node-policy":    {"topology", "use fragmentation, binpack, spread"},
		"krux.io/gpu-policy":     {"x", "topology"},
		"krux.io/use-gpu-uuid":   {"GPU-1", "write names as kubectl get kruxnodes"},
		"krux.io/use-gpu-type":   {" , ", "is empty"},
		"krux.io/grant":          {"{}", "the scheduler's alone"},
		"filler":                 {strings.Repeat("x", 262000), "make them shorter"},
	} {
		pod := podOf("gpu=1 gpumem=10")
		pod.Annotations = map[string]string{name: row.value}
		if _, err := newRules(t).admit(pod); err == nil || !strings.Contains(err.Error(), row.part) {
			t.Errorf("%s: got %v, want %q", name, err, row.part)
		}
	}
	pod := podOf("gpu=1")
	pod.Annotations = map[string]string{"krux.io/compute-polcy": "none"}
	if warnings, err := newRules(t).admit(pod); err != nil || len(warnings) != 1 {
		t.Errorf("misspelt: %v %v", warnings, err)
	}
}

// Whole pods as people write them for HAMi.
func TestPodsForHAMiRunUnchanged(t *testing.T) {
	for text, want := range map[string]string{
		"nvidia.com/gpu=1": "gpu=1 gpucores-total=100 gpumem-total=80k",
		"nvidia.com/gpu=2 nvidia.com/gpumem=3000 nvidia.com/gpucores=30":          "gpu=2 gpucores-total=60 gpucores=30 gpumem-total=6k gpumem=3k",
		"nvidia.com/gpu=1 nvidia.com/gpumem-percentage=50":                        "gpu=1 gpumem-percentage=50 gpumem-total=40k",
		"nvidia.com/gpumem=3000":                                                  "gpu=1 gpumem-total=3k gpumem=3k",
		"nvidia.com/gpu=1 nvidia.com/gpumem=3000 nvidia.com/gpumem-percentage=50": "gpu=1 gpumem-total=3k gpumem=3k",
		"nvidia.com/gpu=1 nvidia.com/gpumem=3000 nvidia.com/gpucores=0":           "gpu=1 gpumem-total=3k gpumem=3k",
		"nvidia.com/gpu=1 nvidia.com/gpumem=10 nvidia.com/priority=0":             "gpu=1 gpumem-total=10 gpumem=10",
		"nvidia.com/gpu=1 gpumem=10 nvidia.com/gpumem=20":                         "denied: names both",
		"nvidia.com/gpu=1 nvidia.com/priority=7":                                  "denied: use 0 (high) or 1 (low)",
		"nvidia.com/gpu=1 nvidia.com/gpumem-percentage=0":                         "denied: gpumem-percentage is 0",
	} {
		pod, nvidia := podOf(text), "nvidia"
		pod.Spec.RuntimeClassName, pod.Spec.SchedulerName = &nvidia, "hami-scheduler"
		_, err := newRules(t, "hami").admit(pod)
		got := textOf(&pod.Spec.Containers[0])
		if part, denied := strings.CutPrefix(want, "denied: "); denied {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q: got %v, want a denial with %q", text, err, part)
			}
		} else if err != nil || got != want || *pod.Spec.RuntimeClassName != "krux" || pod.Spec.SchedulerName != v1.DefaultSchedulerName {
			t.Errorf("%q: got %q in %q by %q, %v, want %q", text, got, *pod.Spec.RuntimeClassName, pod.Spec.SchedulerName, err, want)
		}
	}
}

func TestAnnotationsForHAMi(t *testing.T) {
	pod := podOf("nvidia.com/gpu=1 nvidia.com/gpumem=10 nvidia.com/gpucores=10 nvidia.com/priority=0")
	pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "GPU_CORE_UTILIZATION_POLICY", Value: "force"}}
	uuid := "GPU-00000000-0000-0000-0000-000000000001"
	pod.Annotations = map[string]string{
		"nvidia.com/use-gputype": "A100,H100", "nvidia.com/nouse-gputype": "T4",
		"nvidia.com/use-gpuuuid": uuid, "nvidia.com/nouse-gpuuuid": uuid,
		"hami.io/node-scheduler-policy": "spread", "hami.io/gpu-scheduler-policy": "topology-aware",
		"nvidia.com/vgpu-mode": "hami-core",
	}
	if _, err := newRules(t, "hami").admit(pod); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"krux.io/use-gpu-type": "A100,H100", "krux.io/no-gpu-type": "T4", "krux.io/use-gpu-uuid": uuid,
		"krux.io/no-gpu-uuid": uuid, "krux.io/node-policy": "spread", "krux.io/gpu-policy": "topology",
		"krux.io/compute-policy": "fixed", "krux.io/priority": "latency",
	} {
		if got := pod.Annotations[name]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	mig := podOf("nvidia.com/gpu=1")
	mig.Annotations = map[string]string{"nvidia.com/vgpu-mode": "mig"}
	if _, err := newRules(t, "hami").admit(mig); err == nil || !strings.Contains(err.Error(), "use hami-core") {
		t.Errorf("mig: %v", err)
	}
}

func TestWithoutTheProfileOthersNamesAreLeftAlone(t *testing.T) {
	pod := podOf("nvidia.com/gpu=1")
	if _, err := newRules(t).admit(pod); err != nil || textOf(&pod.Spec.Containers[0]) != "nvidia.com/gpu=1" || pod.Spec.RuntimeClassName != nil {
		t.Errorf("%v %+v", err, pod.Spec)
	}
}

func TestProfilesThatClaimOneNameAreRefused(t *testing.T) {
	profiles["twin"] = &profile{name: "twin", resources: map[v1.ResourceName]v1.ResourceName{"nvidia.com/gpu": "krux.io/gpu"}}
	defer delete(profiles, "twin")
	for _, names := range [][]string{{"hami", "twin"}, {"hami", "hami"}, {"nobody"}} {
		if _, err := chooseProfiles(names); err == nil {
			t.Errorf("%v: accepted", names)
		}
	}
}

func review(t *testing.T, r *rules, object string) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "u", Object: runtime.RawExtension{Raw: []byte(object)}}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := r.review(body)
	if err != nil {
		t.Fatal(err)
	}
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(answer, &out); err != nil || out.Response == nil || out.Response.UID != "u" {
		t.Fatalf("answer %s: %v", answer, err)
	}
	return out.Response
}

// The patch names the fields that change and no other.
func TestPatchTouchesOnlyWhatChanges(t *testing.T) {
	pod, err := json.Marshal(podOf("cpu=1", "gpumem=1000"))
	if err != nil {
		t.Fatal(err)
	}
	response := review(t, newRules(t), string(pod))
	var patch []operation
	if err := json.Unmarshal(response.Patch, &patch); err != nil || !response.Allowed {
		t.Fatalf("%+v %v", response, err)
	}
	var paths []string
	for _, o := range patch {
		paths = append(paths, o.Path)
	}
	want := []string{"/spec/containers/1/resources/limits", "/spec/containers/1/resources/requests", "/spec/runtimeClassName"}
	if got := slices.Sorted(slices.Values(paths)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzReview(f *testing.F) {
	pod, _ := json.Marshal(podOf("gpu=1 gpumem=10", "nvidia.com/gpu=1"))
	f.Add([]byte(`{"request":{"uid":"u","object":` + string(pod) + `}}`))
	f.Add([]byte(`{"request":{"object":{"spec":{"containers":[{"resources":{"limits":{"krux.io/gpu":"-1"}}}]}}}}`))
	r := &rules{profiles: []*profile{hami}, largest: func() uint64 { return 0 }}
	f.Fuzz(func(t *testing.T, body []byte) {
		if answer, err := r.review(body); err == nil && !json.Valid(answer) {
			t.Errorf("answer %q", answer)
		}
	})
}
