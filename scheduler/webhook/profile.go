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

// profile makes pods written for another system run unchanged. Immutable.
type profile struct {
	name string
	// resources: the other system's name -> Krux's, same unit and meaning.
	resources map[v1.ResourceName]v1.ResourceName
	// zeroIsNothing: of these Krux resources, 0 means "not asked for" there.
	zeroIsNothing []v1.ResourceName
	// annotations: the other name -> Krux's name and how values are translated.
	annotations map[string]annotation
	// extra names that are recognised and removed, with what they do to the pod.
	extra map[v1.ResourceName]func(pod *v1.Pod, amount int64) error
	// environment variables of containers that carry settings.
	environment map[string]func(pod *v1.Pod, value string) error
	// refused annotations: values that Krux cannot serve, by name.
	refused map[string]func(value string) error
	// runtimeClasses and schedulers of the other system, replaced by Krux's.
	runtimeClasses, schedulers []string
}

type annotation struct {
	name   string
	values map[string]string // nil: taken as it is
}

// profiles that exist; none is on unless named.
var profiles = map[string]*profile{"hami": hami}

// chooseProfiles gives those named, and refuses two that claim one name.
func chooseProfiles(names []string) ([]*profile, error) {
	var chosen []*profile
	claimed := map[string]string{}
	for _, name := range names {
		p, ok := profiles[name]
		if !ok {
			return nil, fmt.Errorf("there is no profile %q: use %s", name, strings.Join(slices.Sorted(maps.Keys(profiles)), ", "))
		}
		for _, claim := range p.claims() {
			if other, taken := claimed[claim]; taken {
				return nil, fmt.Errorf("profiles %s and %s both claim %s: name one of them", other, name, claim)
			}
			claimed[claim] = name
		}
		chosen = append(chosen, p)
	}
	return chosen, nil
}

// claims lists the names of resources and annotations that the profile handles.
func (p *profile) claims() []string {
	var names []string
	for name := range p.resources {
		names = append(names, string(name))
	}
	for name := range p.extra {
		names = append(names, string(name))
	}
	for name := range p.annotations {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// resourceNames of the profile, sorted.
func (p *profile) resourceNames() []string {
	var names []string
	for name := range p.resources {
		names = append(names, string(name))
	}
	return slices.Sorted(slices.Values(names))
}

// applies says whether the pod is written for this profile.
func (p *profile) applies(pod *v1.Pod) bool {
	for _, c := range containersOf(pod) {
		for _, list := range []v1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
			for name := range list {
				if _, ours := p.resources[name]; ours {
					return true
				}
			}
		}
	}
	return false
}

// rewrite turns the pod into one of Krux's.
func (p *profile) rewrite(pod *v1.Pod) error {
	for _, c := range containersOf(pod) {
		if err := p.rewriteContainer(pod, c); err != nil {
			return fmt.Errorf("container %q: %w", c.Name, err)
		}
	}
	for name, check := range p.refused {
		if value, ok := pod.Annotations[name]; ok {
			if err := check(value); err != nil {
				return fmt.Errorf("annotation %s: %w", name, err)
			}
		}
	}
	for name, target := range p.annotations {
		if value, ok := pod.Annotations[name]; ok {
			if err := translate(pod, name, value, target); err != nil {
				return err
			}
		}
	}
	if pod.Spec.RuntimeClassName != nil && slices.Contains(p.runtimeClasses, *pod.Spec.RuntimeClassName) {
		pod.Spec.RuntimeClassName = nil
	}
	if slices.Contains(p.schedulers, pod.Spec.SchedulerName) {
		pod.Spec.SchedulerName = v1.DefaultSchedulerName
	}
	return nil
}

func translate(pod *v1.Pod, name, value string, target annotation) error {
	if strings.Trim(value, ", ") == "" {
		return nil
	}
	if target.values != nil {
		translated, ok := target.values[value]
		if !ok {
			return fmt.Errorf("annotation %s is %.64q: use %s", name, value, strings.Join(slices.Sorted(maps.Keys(target.values)), ", "))
		}
		value = translated
	}
	if value != "" {
		annotate(pod, target.name, value)
	}
	return nil
}

// annotate sets an annotation that the user has not set.
func annotate(pod *v1.Pod, name, value string) {
	if _, set := pod.Annotations[name]; set {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[name] = value
}

func (p *profile) rewriteContainer(pod *v1.Pod, c *v1.Container) error {
	written := false
	for name, target := range p.resources {
		quantity, ok := amountOf(c, name)
		if !ok {
			continue
		}
		if _, both := amountOf(c, target); both {
			return fmt.Errorf("names both %s and %s: remove one", name, target)
		}
		remove(c, name)
		if quantity.IsZero() && slices.Contains(p.zeroIsNothing, target) {
			continue
		}
		set(c, target, quantity)
		written = true
	}
	// The amount in MiB wins over percent there; Krux would refuse both.
	if _, mib := amountOf(c, plugin.ResourceMemory); mib && written {
		remove(c, plugin.ResourceMemoryPercent)
	}
	for name, act := range p.extra {
		if quantity, ok := amountOf(c, name); ok {
			remove(c, name)
			if err := act(pod, quantity.Value()); err != nil {
				return err
			}
		}
	}
	if !written {
		return nil
	}
	for _, variable := range c.Env {
		if act, ok := p.environment[variable.Name]; ok {
			if err := act(pod, variable.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// containersOf gives init containers first, as they run.
func containersOf(pod *v1.Pod) []*v1.Container {
	var all []*v1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}

func amountOf(c *v1.Container, name v1.ResourceName) (resource.Quantity, bool) {
	if q, ok := c.Resources.Limits[name]; ok {
		return q, true
	}
	q, ok := c.Resources.Requests[name]
	return q, ok
}

func remove(c *v1.Container, name v1.ResourceName) {
	delete(c.Resources.Limits, name)
	delete(c.Resources.Requests, name)
}

// set limit and request, which are equal for extended resources.
func set(c *v1.Container, name v1.ResourceName, quantity resource.Quantity) {
	if c.Resources.Limits == nil {
		c.Resources.Limits = v1.ResourceList{}
	}
	if c.Resources.Requests == nil {
		c.Resources.Requests = v1.ResourceList{}
	}
	c.Resources.Limits[name], c.Resources.Requests[name] = quantity, quantity
}
