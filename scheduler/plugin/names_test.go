package plugin

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

func readHeader(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../protocol/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNamesAgreeWithProtocol(t *testing.T) {
	header := readHeader(t, "names.h")
	for constant, here := range map[string]string{
		"kResourceGpu":           resourceGPU,
		"kResourceMemory":        resourceMemory,
		"kResourceMemoryPercent": resourceMemoryPercent,
		"kResourceCores":         resourceCores,
		"kAnnotationGrant":       annotationGrant,
		"kAnnotationPolicy":      annotationPolicy,
		"kAnnotationPriority":    annotationPriority,
	} {
		m := regexp.MustCompile(constant + `\[\] = "([^"]*)"`).FindStringSubmatch(header)
		if m == nil || m[1] != here {
			t.Errorf("%s: protocol/names.h has %q, the plugin %q", constant, m, here)
		}
	}
}

func TestLimitsAgreeWithProtocol(t *testing.T) {
	header := readHeader(t, "grant.h")
	for constant, here := range map[string]int{
		"kMaxGrantBytes":       maxGrantBytes,
		"kMaxGrantContainers":  maxGrantContainers,
		"kMaxGpusPerContainer": maxGPUsPerContainer,
		"kMaxGpuMemoryMib":     maxMemoryMiB,
	} {
		m := regexp.MustCompile(constant + ` = ([0-9* ]+);`).FindStringSubmatch(header)
		if m == nil {
			t.Errorf("%s is not in protocol/grant.h", constant)
			continue
		}
		product := 1
		for _, factor := range regexp.MustCompile(`[0-9]+`).FindAllString(m[1], -1) {
			n, _ := strconv.Atoi(factor)
			product *= n
		}
		if product != here {
			t.Errorf("%s: protocol/grant.h has %d, the plugin %d", constant, product, here)
		}
	}
}
