package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"krux.io/krux/scheduler/plugin"
)

const runtimeClass = "krux"

// rules decide about pods. Immutable but for the cards, which come from outside.
type rules struct {
	profiles []*profile
	// scheduler is written into pods that name none; empty: they keep the
	// default scheduler, whose place krux-scheduler has taken.
	scheduler string
	// largest gives the memory of the largest GPU known in MiB, 0 = not known.
	largest func() uint64
}

// admit completes the pod, or says why it is denied. Warnings are for the user
// who creates it. A pod that is not Krux's is left as it is.
func (r *rules) admit(pod *v1.Pod) (warnings []string, err error) {
	for _, p := range r.profiles {
		if p.applies(pod) {
			if err := p.rewrite(pod); err != nil {
				return nil, fmt.Errorf("%w (profile %s)", err, p.name)
			}
		}
	}
	if err := knownNames(pod); err != nil {
		return nil, err
	}
	if !plugin.AsksForGPU(pod) {
		return nil, nil
	}
	for _, c := range containersOf(pod) {
		defaultCount(c)
	}
	demands, err := plugin.Check(pod)
	if err != nil || len(demands) == 0 {
		return nil, err
	}
	if err := r.fitsAnyCard(demands); err != nil {
		return nil, err
	}
	if err := r.place(pod); err != nil {
		return nil, err
	}
	r.addTotals(pod, demands)
	return unknownAnnotations(pod), nil
}

// defaultCount: memory or time without a number of GPUs means one.
func defaultCount(c *v1.Container) {
	if _, given := amountOf(c, plugin.ResourceGPU); given {
		return
	}
	for _, name := range []v1.ResourceName{plugin.ResourceMemory, plugin.ResourceMemoryPercent, plugin.ResourceCores} {
		if _, ok := amountOf(c, name); ok {
			set(c, plugin.ResourceGPU, *resource.NewQuantity(1, resource.DecimalSI))
			return
		}
	}
}

// knownNames refuses names that look like ours and are not: a misspelt
// gpumem would be a pod with a whole GPU.
func knownNames(pod *v1.Pod) error {
	for _, c := range containersOf(pod) {
		for _, list := range []v1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			for name := range list {
				if strings.HasPrefix(string(name), "krux.io/") && !slices.Contains(plugin.Resources, name) {
					return fmt.Errorf("container %q: there is no resource %s: use krux.io/gpu, gpumem, gpumem-percentage, gpucores", c.Name, name)
				}
			}
		}
	}
	return nil
}

func (r *rules) fitsAnyCard(demands []plugin.Demand) error {
	largest := r.largest()
	for _, d := range demands {
		if largest > 0 && d.MemoryMiB > largest {
			return fmt.Errorf("container %q: krux.io/gpumem is %d: the largest GPU of this cluster has %d MiB", d.Container, d.MemoryMiB, largest)
		}
	}
	return nil
}

// place: scheduler and RuntimeClass.
func (r *rules) place(pod *v1.Pod) error {
	switch name := pod.Spec.RuntimeClassName; {
	case name == nil || *name == "":
		class := runtimeClass
		pod.Spec.RuntimeClassName = &class
	case *name != runtimeClass:
		return fmt.Errorf("runtimeClassName is %.64q: a pod with krux.io resources runs in RuntimeClass %s: remove the line", *name, runtimeClass)
	}
	if r.scheduler != "" && (pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == v1.DefaultSchedulerName) {
		pod.Spec.SchedulerName = r.scheduler
	}
	return nil
}

// addTotals: ResourceQuota adds up quantities as they stand, and those of Krux
// are per GPU. The totals are what quota should count: MiB and percent times the
// number of GPUs; percent and whole GPUs at the size of the largest card. When
// no card is known yet there is no total, and a quota on it refuses the pod.
func (r *rules) addTotals(pod *v1.Pod, demands []plugin.Demand) {
	largest := r.largest()
	byName := map[string]plugin.Demand{}
	for _, d := range demands {
		byName[d.Container] = d
	}
	for _, c := range containersOf(pod) {
		remove(c, plugin.ResourceMemoryTotal)
		remove(c, plugin.ResourceCoresTotal)
		d, ok := byName[c.Name]
		if !ok {
			continue
		}
		memory := d.MemoryMiB
		switch {
		case memory > 0:
		case d.Percent > 0:
			memory = (largest*uint64(d.Percent) + 99) / 100
		default:
			memory = largest
		}
		if memory > 0 {
			set(c, plugin.ResourceMemoryTotal, *resource.NewQuantity(int64(memory*uint64(d.GPUs)), resource.DecimalSI))
		}
		if d.Cores > 0 {
			set(c, plugin.ResourceCoresTotal, *resource.NewQuantity(int64(d.Cores*d.GPUs), resource.DecimalSI))
		}
	}
}

// unknownAnnotations warns of names that look like ours and mean nothing.
func unknownAnnotations(pod *v1.Pod) []string {
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if strings.HasPrefix(name, "krux.io/") && !slices.Contains(plugin.Annotations, name) {
			warnings = append(warnings, fmt.Sprintf("annotation %s means nothing to Krux: it knows %s", name, strings.Join(plugin.Annotations, ", ")))
		}
	}
	return warnings
}
