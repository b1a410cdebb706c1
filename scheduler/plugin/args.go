package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// args are the plugin's settings in KubeSchedulerConfiguration:
//
//	pluginConfig:
//	  - name: Krux
//	    args: {nodePolicy: fragmentation, gpuPolicy: fragmentation}
type args struct {
	// Ignored; Kubernetes tools like to write them.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`

	NodePolicy string `json:"nodePolicy,omitempty"`
	GPUPolicy  string `json:"gpuPolicy,omitempty"`
}

// parseArgs gives the policies of pods that name none.
func parseArgs(object runtime.Object) (policies, error) {
	a := args{NodePolicy: "fragmentation", GPUPolicy: "fragmentation"}
	if unknown, ok := object.(*runtime.Unknown); ok && len(unknown.Raw) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(unknown.Raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&a); err != nil {
			return policies{}, fmt.Errorf("args: %w: use nodePolicy and gpuPolicy", err)
		}
	}
	if !slices.Contains(nodePolicies, a.NodePolicy) {
		return policies{}, fmt.Errorf("args: nodePolicy is %q: use %s", a.NodePolicy, strings.Join(nodePolicies, ", "))
	}
	if !slices.Contains(gpuPolicies, a.GPUPolicy) {
		return policies{}, fmt.Errorf("args: gpuPolicy is %q: use %s", a.GPUPolicy, strings.Join(gpuPolicies, ", "))
	}
	node, _ := policyID(a.NodePolicy)
	gpu, _ := policyID(a.GPUPolicy)
	return policies{node, gpu}, nil
}
