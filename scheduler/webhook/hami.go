package webhook

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"krux.io/krux/scheduler/plugin"
)

// hami: pods written for HAMi. Its amounts are per GPU and in MiB or percent, as
// Krux's are. Differences that remain are named in docs/hami.md.
var hami = &profile{
	name: "hami",
	resources: map[v1.ResourceName]v1.ResourceName{
		"nvidia.com/gpu":               plugin.ResourceGPU,
		"nvidia.com/gpumem":            plugin.ResourceMemory,
		"nvidia.com/gpumem-percentage": plugin.ResourceMemoryPercent,
		"nvidia.com/gpucores":          plugin.ResourceCores,
	},
	zeroIsNothing: []v1.ResourceName{plugin.ResourceMemory, plugin.ResourceCores},
	annotations: map[string]annotation{
		"nvidia.com/use-gputype":   {name: plugin.AnnotationUseType},
		"nvidia.com/nouse-gputype": {name: plugin.AnnotationNoType},
		"nvidia.com/use-gpuuuid":   {name: plugin.AnnotationUseUUID},
		"nvidia.com/nouse-gpuuuid": {name: plugin.AnnotationNoUUID},
		"hami.io/node-scheduler-policy": {name: plugin.AnnotationNodePolicy,
			values: map[string]string{"binpack": "binpack", "spread": "spread"}},
		"hami.io/gpu-scheduler-policy": {name: plugin.AnnotationGPUPolicy,
			values: map[string]string{"binpack": "binpack", "spread": "spread", "topology-aware": "topology"}},
	},
	extra: map[v1.ResourceName]func(*v1.Pod, int64) error{"nvidia.com/priority": hamiPriority},
	environment: map[string]func(*v1.Pod, string) error{
		"GPU_CORE_UTILIZATION_POLICY": hamiCorePolicy,
	},
	refused: map[string]func(string) error{"nvidia.com/vgpu-mode": hamiMode},

	runtimeClasses: []string{"nvidia"},
	schedulers:     []string{"hami-scheduler"},
}

// hamiPriority: 0 is high there and 1 low, which is also the default.
func hamiPriority(pod *v1.Pod, level int64) error {
	switch level {
	case 0:
		annotate(pod, plugin.AnnotationPriority, "latency")
	case 1:
	default:
		return fmt.Errorf("nvidia.com/priority is %d: use 0 (high) or 1 (low)", level)
	}
	return nil
}

func hamiCorePolicy(pod *v1.Pod, value string) error {
	switch value {
	case "", "default":
	case "force":
		annotate(pod, plugin.AnnotationPolicy, "fixed")
	case "disable":
		annotate(pod, plugin.AnnotationPolicy, "none")
	default:
		return fmt.Errorf("GPU_CORE_UTILIZATION_POLICY is %.64q: use default, force, disable", value)
	}
	return nil
}

func hamiMode(value string) error {
	if value == "" || value == "hami-core" {
		return nil
	}
	return fmt.Errorf("Krux shares GPUs in one way only: use hami-core, or remove it (it is %.64q)", value)
}
