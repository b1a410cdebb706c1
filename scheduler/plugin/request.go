package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// request is what a pod asks of Krux, valid. Containers that ask for no GPU are
// not in it; the order is that of the pod.
type request struct {
	containers []container
	policy     string
	priority   string
	selection  selection

	// Set by Krux.parse, which knows the cluster.
	ask podAsk
	mix *mix
	// Set by PreFilter.
	class    *class
	narrowed bool // the framework sees only the best nodes
	uncached bool // generations of NodeInfos do not tell changes: see views
}

// selection is which GPUs the pod may have, as the user wrote it, checked.
type selection struct {
	useTypes, noTypes string // comma lists of models
	useUUIDs, noUUIDs []uint64
	policies          policies
}

// policies say how nodes are ranked and which of a node's GPUs are taken; ids
// of the engine.
type policies struct{ node, gpu uint32 }

// parseRequest gives nil for a pod that asks for nothing of Krux, and an error
// whose text is for the user when what it asks for is wrong.
func parseRequest(pod *v1.Pod, defaults policies) (*request, error) {
	r := &request{selection: selection{policies: defaults}}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if err := r.add(c, initKind(c)); err != nil {
			return nil, err
		}
	}
	for i := range pod.Spec.Containers {
		if err := r.add(&pod.Spec.Containers[i], kindApp); err != nil {
			return nil, err
		}
	}
	if len(r.containers) == 0 {
		return nil, nil
	}
	if len(r.containers) > maxGrantContainers {
		return nil, fmt.Errorf("%d containers ask for GPUs: at most %d of one pod can", len(r.containers), maxGrantContainers)
	}
	if err := r.readAnnotations(pod); err != nil {
		return nil, err
	}
	if err := r.selection.read(pod); err != nil {
		return nil, err
	}
	return r, nil
}

// hostRequests is all that the pod requests, as NodeResourcesFit counts it.
func hostRequests(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// parse is parseRequest with what only the cluster knows.
func (k *Krux) parse(pod *v1.Pod) (*request, error) {
	r, err := parseRequest(pod, k.defaults)
	if err != nil || r == nil {
		return nil, err
	}
	s := &r.selection
	r.mix = k.mix.Load()
	r.ask.setPolicies(s.policies.node, s.policies.gpu)
	r.ask.setUUIDs(s.useUUIDs, s.noUUIDs)
	r.ask.setModels(k.inventory.modelBits(s.useTypes), k.inventory.modelBits(s.noTypes))
	const mib = 1 << 20
	host := hostRequests(pod)
	r.ask.setHost(host.Cpu().MilliValue(), host.Memory().Value()/mib)
	return r, nil
}

func initKind(c *v1.Container) uint32 {
	if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
		return kindSidecar
	}
	return kindInit
}

func (r *request) add(c *v1.Container, kind uint32) error {
	a := asked{
		gpu:     quantity(c, resourceGPU),
		memory:  quantity(c, resourceMemory),
		percent: quantity(c, resourceMemoryPercent),
		cores:   quantity(c, resourceCores),
	}
	parsed, err := validate(a)
	if err != nil {
		return fmt.Errorf("container %q: %w", c.Name, err)
	}
	if parsed.gpus == 0 {
		return nil
	}
	// The kubelet gives a container its slot and the gate only for krux.io/gpu.
	if a.gpu == nil {
		return fmt.Errorf("container %q asks for GPU memory or time, but not for a GPU: add krux.io/gpu: 1", c.Name)
	}
	setKind(&parsed, kind)
	r.containers = append(r.containers, container{name: c.Name, c: parsed})
	return nil
}

// quantity is nil when the container does not name the resource. Extended
// resources have limits equal to requests.
func quantity(c *v1.Container, name v1.ResourceName) *int64 {
	q, ok := c.Resources.Limits[name]
	if !ok {
		if q, ok = c.Resources.Requests[name]; !ok {
			return nil
		}
	}
	value := q.Value()
	return &value
}

func (r *request) readAnnotations(pod *v1.Pod) error {
	var err error
	if r.policy, err = word(pod, annotationPolicy, computePolicies, "balance"); err != nil {
		return err
	}
	if r.priority, err = word(pod, annotationPriority, priorities, "normal"); err != nil {
		return err
	}
	for _, c := range r.containers {
		if r.policy == "fixed" && c.c.cores == 0 {
			return fmt.Errorf("container %q: krux.io/compute-policy: fixed needs krux.io/gpucores: add it, or use balance", c.name)
		}
	}
	return nil
}

func word(pod *v1.Pod, annotation string, allowed []string, unset string) (string, error) {
	value, ok := pod.Annotations[annotation]
	if !ok {
		return unset, nil
	}
	if !slices.Contains(allowed, value) {
		return "", fmt.Errorf("annotation %s is %.64q: use %s", annotation, value, strings.Join(allowed, ", "))
	}
	return value, nil
}

// maxListBytes bounds a list of models or UUIDs.
const maxListBytes = 2048

func (s *selection) read(pod *v1.Pod) error {
	var err error
	if s.useTypes, err = list(pod, annotationUseType); err != nil {
		return err
	}
	if s.noTypes, err = list(pod, annotationNoType); err != nil {
		return err
	}
	if s.useUUIDs, err = uuids(pod, annotationUseUUID); err != nil {
		return err
	}
	if s.noUUIDs, err = uuids(pod, annotationNoUUID); err != nil {
		return err
	}
	if err := policy(pod, annotationNodePolicy, nodePolicies, &s.policies.node); err != nil {
		return err
	}
	return policy(pod, annotationGPUPolicy, gpuPolicies, &s.policies.gpu)
}

// list is empty when the annotation is not there.
func list(pod *v1.Pod, annotation string) (string, error) {
	text, ok := pod.Annotations[annotation]
	if !ok {
		return "", nil
	}
	if strings.Trim(text, ", ") == "" {
		return "", fmt.Errorf("annotation %s is empty: write names with commas between them, or remove it", annotation)
	}
	if len(text) > maxListBytes || strings.ContainsRune(text, 0) {
		return "", fmt.Errorf("annotation %s is longer than %d bytes or no text: make it shorter", annotation, maxListBytes)
	}
	return text, nil
}

func uuids(pod *v1.Pod, annotation string) ([]uint64, error) {
	text, err := list(pod, annotation)
	if err != nil || text == "" {
		return nil, err
	}
	var keys []uint64
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		if !gpuUUID.MatchString(word) {
			return nil, fmt.Errorf("annotation %s names %.64q: write names as kubectl get kruxnodes -o yaml shows them (GPU-…)", annotation, word)
		}
		keys = append(keys, uuidKey(word))
	}
	if len(keys) > maxUUIDs {
		return nil, fmt.Errorf("annotation %s names %d GPUs: at most %d can be named", annotation, len(keys), maxUUIDs)
	}
	return keys, nil
}

func policy(pod *v1.Pod, annotation string, allowed []string, id *uint32) error {
	name, err := word(pod, annotation, allowed, "")
	if err == nil && name != "" {
		*id, _ = policyID(name)
	}
	return err
}

// maxAnnotationBytes is what the API server accepts for all annotations of an
// object (apimachinery's TotalAnnotationSizeLimitB).
const maxAnnotationBytes = 256 * 1024

// checkUnbound refuses what only an unbound pod can be refused for: a grant
// that somebody else wrote, and annotations that leave no room for one. The
// API server takes annotations and grant together above its limit, but then
// refuses every later status update of the pod.
func (r *request) checkUnbound(pod *v1.Pod) error {
	if _, ok := pod.Annotations[annotationGrant]; ok {
		return errors.New("annotation krux.io/grant is the scheduler's alone: remove it")
	}
	used := 0
	for key, value := range pod.Annotations {
		used += len(key) + len(value)
	}
	if room := r.largestGrant(); used+room > maxAnnotationBytes {
		return fmt.Errorf("annotations have %d bytes, %d are left for others beside krux.io/grant: make them shorter",
			used, maxAnnotationBytes-room)
	}
	return nil
}

// largestGrant bounds the bytes of the pod's grant.
func (r *request) largestGrant() int {
	const head, perContainer, perGPU = 512, 16, 192
	size := head
	for _, c := range r.containers {
		size += perContainer + len(c.name) + int(c.c.gpus)*perGPU
	}
	return size
}
