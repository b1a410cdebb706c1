package plugin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// grant is the annotation krux.io/grant; the form is that of protocol/grant.h,
// and protocol/testdata is tested against it.
type grant struct {
	Version    uint64                `json:"v"`
	PodUID     string                `json:"podUID"`
	Node       string                `json:"node"`
	Generation uint64                `json:"gen"`
	Containers map[string][]gpuGrant `json:"containers"`
}

type gpuGrant struct {
	UUID      string `json:"uuid"`
	MemoryMiB uint64 `json:"memMiB"`
	Cores     uint32 `json:"cores"`
	Policy    string `json:"policy"`
	Priority  string `json:"priority"`
}

var gpuUUID = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// parseGrant reads text that others may have written.
func parseGrant(text string) (*grant, error) {
	if len(text) > maxGrantBytes {
		return nil, fmt.Errorf("grant: larger than %d bytes", maxGrantBytes)
	}
	var g grant
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return nil, fmt.Errorf("grant: %w", err)
	}
	if g.Version != 1 {
		return nil, fmt.Errorf("grant: version %d is not known here (1 is): update Krux", g.Version)
	}
	if g.PodUID == "" || g.Node == "" {
		return nil, fmt.Errorf("grant: 'podUID' or 'node' is missing")
	}
	if len(g.Containers) == 0 || len(g.Containers) > maxGrantContainers {
		return nil, fmt.Errorf("grant: names %d containers, 1 to %d are allowed", len(g.Containers), maxGrantContainers)
	}
	for name, gpus := range g.Containers {
		if err := checkGPUs(gpus); err != nil {
			return nil, fmt.Errorf("grant: container %.64q: %w", name, err)
		}
	}
	return &g, nil
}

func checkGPUs(gpus []gpuGrant) error {
	if len(gpus) == 0 || len(gpus) > maxGPUsPerContainer {
		return fmt.Errorf("has %d GPUs, 1 to %d are allowed", len(gpus), maxGPUsPerContainer)
	}
	seen := map[string]bool{}
	for _, gpu := range gpus {
		switch {
		case !gpuUUID.MatchString(gpu.UUID):
			return fmt.Errorf("GPU UUID %.64q is malformed", gpu.UUID)
		case seen[gpu.UUID]:
			return fmt.Errorf("GPU %s is named twice", gpu.UUID)
		case gpu.MemoryMiB < 1 || gpu.MemoryMiB > maxMemoryMiB:
			return fmt.Errorf("memMiB %d is out of range", gpu.MemoryMiB)
		case gpu.Cores > 100:
			return fmt.Errorf("cores %d is out of range", gpu.Cores)
		case !slices.Contains(computePolicies, gpu.Policy):
			return fmt.Errorf("policy %.64q is unknown: use %s", gpu.Policy, strings.Join(computePolicies, ", "))
		case !slices.Contains(priorities, gpu.Priority):
			return fmt.Errorf("priority %.64q is unknown: use %s", gpu.Priority, strings.Join(priorities, ", "))
		}
		seen[gpu.UUID] = true
	}
	return nil
}

func (g *grant) text() (string, error) {
	data, err := json.Marshal(g)
	if err != nil {
		return "", fmt.Errorf("grant: %w", err)
	}
	if len(data) > maxGrantBytes {
		return "", fmt.Errorf("grant: %d bytes, at most %d are allowed", len(data), maxGrantBytes)
	}
	return string(data), nil
}
