package plugin

/*
#cgo CFLAGS: -I${SRCDIR}/../engine
#cgo LDFLAGS: -L${SRCDIR}/../../build/release/lib -lkrux_engine -lstdc++ -lm
#include "krux_engine.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Kinds of container; see krux_engine.h.
const (
	kindApp     = C.KRUX_APP
	kindSidecar = C.KRUX_SIDECAR
	kindInit    = C.KRUX_INIT
)

const maxGPUsPerNode = C.KRUX_MAX_GPUS

// asked is what the user wrote for one container; nil = not there.
type asked struct {
	gpu, memory, percent, cores *int64
}

// container is a valid request.
type container struct {
	name string
	c    C.krux_container
}

// gpuState is one GPU of a node and what is used of it.
type gpuState struct {
	memoryMiB, usedMiB          uint64
	usedCores, usedSlots, slots uint32
	healthy, exclusive          bool
}

// placedGPU is one GPU of one container's plan.
type placedGPU struct {
	index     int
	memoryMiB uint64
}

// share is what a placed pod occupies of one GPU.
type share struct {
	memoryMiB    uint64
	cores, slots uint32
	exclusive    bool
}

// verdict is the engine's answer for one node.
type verdict struct {
	c C.krux_verdict
}

func (v *verdict) fits() bool { return v.c.code == C.KRUX_FITS }

// resolvable says whether other pods' leaving could make room.
func (v *verdict) resolvable() bool { return v.c.code == C.KRUX_SHORT }

func (v *verdict) score() int64 { return int64(v.c.score) }

func (v *verdict) reason() string {
	var text [C.KRUX_MAX_SENTENCE]C.char
	C.krux_reason(&v.c, &text[0], C.KRUX_MAX_SENTENCE)
	return C.GoString(&text[0])
}

func optional(value *int64) (C.int64_t, C.uint8_t) {
	if value == nil {
		return 0, 0
	}
	return C.int64_t(*value), 1
}

// validate gives the container's request (gpus = 0: none), or an error whose
// text says what to write instead.
func validate(a asked) (C.krux_container, error) {
	var in C.krux_asked
	in.gpu, in.has_gpu = optional(a.gpu)
	in.memory_mib, in.has_memory = optional(a.memory)
	in.memory_percent, in.has_percent = optional(a.percent)
	in.cores, in.has_cores = optional(a.cores)
	var out C.krux_container
	var text [C.KRUX_MAX_SENTENCE]C.char
	if C.krux_validate(&in, &out, &text[0], C.KRUX_MAX_SENTENCE) != C.KRUX_VALID {
		return out, errors.New(C.GoString(&text[0]))
	}
	return out, nil
}

func first[T any](items []T) *T {
	if len(items) == 0 {
		return nil
	}
	return unsafe.SliceData(items)
}

func cContainers(containers []container) []C.krux_container {
	out := make([]C.krux_container, len(containers))
	for i := range containers {
		out[i] = containers[i].c
	}
	return out
}

func cGPUs(gpus []gpuState) []C.krux_gpu {
	out := make([]C.krux_gpu, len(gpus))
	for i, g := range gpus {
		out[i] = C.krux_gpu{
			memory_mib:      C.uint64_t(g.memoryMiB),
			used_memory_mib: C.uint64_t(g.usedMiB),
			used_cores:      C.uint32_t(g.usedCores),
			used_slots:      C.uint32_t(g.usedSlots),
			slots:           C.uint32_t(g.slots),
		}
		if g.healthy {
			out[i].flags |= C.KRUX_GPU_HEALTHY
		}
		if g.exclusive {
			out[i].flags |= C.KRUX_GPU_EXCLUSIVE
		}
	}
	return out
}

// plan places all containers of a pod on one node's GPUs. plans[i] belongs to
// containers[i], and is nil when the verdict is not "fits".
func plan(gpus []gpuState, containers []container) (plans [][]placedGPU, v verdict) {
	cg, cc := cGPUs(gpus), cContainers(containers)
	placements := make([]C.krux_placement, len(containers))
	C.krux_plan(nil, nil, first(cg), C.size_t(len(cg)), nil, first(cc), C.size_t(len(cc)), first(placements), &v.c)
	if !v.fits() {
		return nil, v
	}
	plans = make([][]placedGPU, len(containers))
	for i := range placements {
		p := &placements[i]
		for k := 0; k < int(p.count); k++ {
			plans[i] = append(plans[i], placedGPU{int(p.gpu[k]), uint64(p.memory_mib[k])})
		}
	}
	return plans, v
}

// peak gives what a pod with these plans occupies of each of `gpus` GPUs.
func peak(containers []container, plans [][]placedGPU, gpus int) ([]share, error) {
	cc := cContainers(containers)
	placements := make([]C.krux_placement, len(containers))
	for i, plan := range plans {
		if len(plan) > maxGPUsPerContainer {
			return nil, errors.New("too many GPUs for one container")
		}
		placements[i].count = C.uint32_t(len(plan))
		for k, g := range plan {
			placements[i].gpu[k] = C.uint32_t(g.index)
			placements[i].memory_mib[k] = C.uint64_t(g.memoryMiB)
		}
	}
	out := make([]C.krux_share, gpus)
	code := C.krux_peak(first(cc), first(placements), C.size_t(len(cc)), first(out), C.size_t(gpus))
	if code != C.KRUX_FITS {
		return nil, errors.New("the engine refused the grant: a number is out of range")
	}
	shares := make([]share, gpus)
	for i, s := range out {
		shares[i] = share{uint64(s.memory_mib), uint32(s.cores), uint32(s.slots), s.exclusive != 0}
	}
	return shares, nil
}

func setKind(c *C.krux_container, kind uint32) { c.kind = C.uint32_t(kind) }

func setCores(c *C.krux_container, cores uint32) { c.cores = C.uint32_t(cores) }
