package plugin

// Names that the user and other modules see. protocol/names.h is the one list;
// TestNamesAgreeWithProtocol compares.
const (
	resourceGPU           = "krux.io/gpu"
	resourceMemory        = "krux.io/gpumem"
	resourceMemoryPercent = "krux.io/gpumem-percentage"
	resourceCores         = "krux.io/gpucores"

	annotationGrant    = "krux.io/grant"
	annotationPolicy   = "krux.io/compute-policy"
	annotationPriority = "krux.io/priority"
)

// Limits of a grant; protocol/grant.h.
const (
	maxGrantBytes       = 64 * 1024
	maxGrantContainers  = 64
	maxGPUsPerContainer = 16
	maxMemoryMiB        = 16 * 1024 * 1024
)

var (
	policies   = []string{"balance", "fixed", "none"}
	priorities = []string{"latency", "normal", "batch"}
)
