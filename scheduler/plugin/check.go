package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
)

// What the admission webhook shares with the scheduler: the names, and one way
// to read a pod's request.

// Resources that a container may name.
const (
	ResourceGPU           = v1.ResourceName(resourceGPU)
	ResourceMemory        = v1.ResourceName(resourceMemory)
	ResourceMemoryPercent = v1.ResourceName(resourceMemoryPercent)
	ResourceCores         = v1.ResourceName(resourceCores)
	// Totals over a container's GPUs, written by the webhook for ResourceQuota.
	ResourceMemoryTotal = v1.ResourceName(resourceMemoryTotal)
	ResourceCoresTotal  = v1.ResourceName(resourceCoresTotal)
)

// Resources lists all of them.
var Resources = []v1.ResourceName{
	ResourceGPU, ResourceMemory, ResourceMemoryPercent, ResourceCores, ResourceMemoryTotal, ResourceCoresTotal,
}

// Annotations of pods.
const (
	AnnotationPolicy     = annotationPolicy
	AnnotationPriority   = annotationPriority
	AnnotationUseType    = annotationUseType
	AnnotationNoType     = annotationNoType
	AnnotationUseUUID    = annotationUseUUID
	AnnotationNoUUID     = annotationNoUUID
	AnnotationNodePolicy = annotationNodePolicy
	AnnotationGPUPolicy  = annotationGPUPolicy
)

// Annotations lists those that a user may write.
var Annotations = podAnnotations[1:]

// AsksForGPU says whether a container names a Krux resource.
func AsksForGPU(pod *v1.Pod) bool { return asksForGPU(pod) }

// Demand is what one container asks for, valid. MemoryMiB and Percent both 0:
// whole GPUs.
type Demand struct {
	Container string
	GPUs      uint32
	MemoryMiB uint64 // of each GPU
	Percent   uint32 // of each GPU's memory
	Cores     uint32 // percent of each GPU's time
}

// Check reads an unbound pod's request as the scheduler will; an error's text is
// for the user.
func Check(pod *v1.Pod) ([]Demand, error) {
	r, err := parseRequest(pod, policies{})
	if err != nil || r == nil {
		return nil, err
	}
	if err := r.checkUnbound(pod); err != nil {
		return nil, err
	}
	var demands []Demand
	for i := range r.containers {
		demands = append(demands, r.containers[i].demand())
	}
	return demands, nil
}

// WatchLargestGPU follows the KruxNode objects until ctx ends. The function that
// it gives returns the memory of the largest GPU met so far in MiB; 0 = none yet.
func WatchLargestGPU(ctx context.Context, client dynamic.Interface) func() uint64 {
	inv := newInventory(func(string) {})
	go inv.run(ctx, client)
	return inv.largest.Load
}
