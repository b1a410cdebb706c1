package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// request is what a pod asks of Krux, valid. Containers that ask for no GPU are
// not in it; the order is that of the pod.
type request struct {
	containers []container
	policy     string
	priority   string
}

// parseRequest gives nil for a pod that asks for nothing of Krux, and an error
// whose text is for the user when what it asks for is wrong.
func parseRequest(pod *v1.Pod) (*request, error) {
	r := &request{}
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
	if r.policy, err = word(pod, annotationPolicy, policies, "balance"); err != nil {
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
