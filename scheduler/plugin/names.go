package plugin

// Names that the user and other modules see. protocol/names.h is the one list;
// TestNamesAgreeWithProtocol compares.
const (
	resourceGPU           = "krux.io/gpu"
	resourceMemory        = "krux.io/gpumem"
	resourceMemoryPercent = "krux.io/gpumem-percentage"
	resourceCores         = "krux.io/gpucores"
	resourceMemoryTotal   = "krux.io/gpumem-total"   // of all GPUs of a container, for ResourceQuota
	resourceCoresTotal    = "krux.io/gpucores-total" // likewise

	annotationGrant    = "krux.io/grant"
	annotationPolicy   = "krux.io/compute-policy"
	annotationPriority = "krux.io/priority"

	annotationUseType    = "krux.io/use-gpu-type"
	annotationNoType     = "krux.io/no-gpu-type"
	annotationUseUUID    = "krux.io/use-gpu-uuid"
	annotationNoUUID     = "krux.io/no-gpu-uuid"
	annotationNodePolicy = "krux.io/node-policy"
	annotationGPUPolicy  = "krux.io/gpu-policy"

	// On a KruxNode, written by operators: UUIDs of GPUs that take no newcomers.
	annotationCordon = "krux.io/cordon"
)

// podAnnotations are those of users: a waiting pod is tried again when one changes.
var podAnnotations = []string{
	annotationGrant, annotationPolicy, annotationPriority, annotationUseType, annotationNoType,
	annotationUseUUID, annotationNoUUID, annotationNodePolicy, annotationGPUPolicy,
}

// Limits of a grant; protocol/grant.h.
const (
	maxGrantBytes       = 64 * 1024
	maxGrantContainers  = 64
	maxGPUsPerContainer = 16
	maxMemoryMiB        = 16 * 1024 * 1024
)

var (
	computePolicies = []string{"balance", "fixed", "none"}
	priorities      = []string{"latency", "normal", "batch"}
	nodePolicies    = []string{"fragmentation", "binpack", "spread"}
	gpuPolicies     = []string{"fragmentation", "binpack", "spread", "topology"}
)
