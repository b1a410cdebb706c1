package plugin

/*
#cgo CFLAGS: -I${SRCDIR}/../engine
#cgo LDFLAGS: -L${SRCDIR}/../../build/release/lib -lkrux_engine -lstdc++ -lm
#include <stdlib.h>
#include "krux_engine.h"
*/
import "C"

import (
	"errors"
	"runtime"
	"sync"
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
type gpuState struct{ c C.krux_gpu }

// newGPUState is the GPU with nothing used.
func newGPUState(gpu *nodeGPU, slots uint32) gpuState {
	state := gpuState{C.krux_gpu{
		memory_mib: C.uint64_t(gpu.memoryMiB),
		uuid:       C.uint64_t(gpu.key),
		nvlink:     C.uint64_t(gpu.links),
		slots:      C.uint32_t(slots),
		model:      C.uint32_t(gpu.modelID),
		numa:       C.uint32_t(gpu.numa),
	}}
	for flag, set := range map[C.uint32_t]bool{
		C.KRUX_GPU_HEALTHY: gpu.healthy, C.KRUX_GPU_CORDONED: gpu.cordoned, C.KRUX_GPU_MIG: gpu.mig,
	} {
		if set {
			state.c.flags |= flag
		}
	}
	return state
}

// add charges a share.
func (g *gpuState) add(s share) {
	g.c.used_memory_mib += C.uint64_t(s.memoryMiB)
	g.c.used_cores += C.uint32_t(s.cores)
	g.c.used_slots += C.uint32_t(s.slots)
	if s.exclusive {
		g.c.flags |= C.KRUX_GPU_EXCLUSIVE
	}
}

func (g *gpuState) memoryMiB() uint64 { return uint64(g.c.memory_mib) }
func (g *gpuState) usedMiB() uint64   { return uint64(g.c.used_memory_mib) }
func (g *gpuState) usedCores() uint32 { return uint32(g.c.used_cores) }

// hostState is a node's CPU and memory, for policies that look at them.
type hostState struct{ c C.krux_node }

func newHostState(cpuMilli, usedCPUMilli, memoryMiB, usedMemoryMiB int64) hostState {
	return hostState{C.krux_node{
		cpu_milli: C.uint64_t(cpuMilli), used_cpu_milli: C.uint64_t(usedCPUMilli),
		memory_mib: C.uint64_t(memoryMiB), used_memory_mib: C.uint64_t(usedMemoryMiB),
	}}
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

// score: higher is better; it compares with scores of the same class only.
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

// policyID gives the engine's number for a policy's name; unknown = false.
func policyID(name string) (uint32, bool) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	id := C.krux_policy(text)
	return uint32(id), id >= 0
}

// uuidKey is a GPU's name as the engine knows it.
func uuidKey(uuid string) uint64 {
	return uint64(C.krux_uuid_key((*C.char)(unsafe.Pointer(unsafe.StringData(uuid))), C.size_t(len(uuid))))
}

// matchesModel says whether a comma list of model names names this model.
func matchesModel(list, model string) bool {
	cList, cModel := C.CString(list), C.CString(model)
	defer C.free(unsafe.Pointer(cList))
	defer C.free(unsafe.Pointer(cModel))
	return C.krux_matches(cList, cModel) == 1
}

const (
	maxUUIDs  = C.KRUX_MAX_UUIDS
	maxModels = C.KRUX_MAX_MODELS
)

// podAsk is what a pod asks for as a whole. Comparable: pods that ask alike
// have equal ones.
type podAsk struct{ c C.krux_pod }

func (a *podAsk) setHost(cpuMilli, memoryMiB int64) {
	a.c.cpu_milli, a.c.memory_mib = C.uint64_t(max(cpuMilli, 0)), C.uint64_t(max(memoryMiB, 0))
}

func (a *podAsk) setPolicies(node, gpu uint32) {
	a.c.node_policy, a.c.gpu_policy = C.uint32_t(node), C.uint32_t(gpu)
}

// setModels: bit i stands for the model with that id; use = 0 is any.
func (a *podAsk) setModels(use, not uint64) {
	a.c.use_models, a.c.no_models = C.uint64_t(use), C.uint64_t(not)
}

// setUUIDs takes at most maxUUIDs keys each; none to use = any.
func (a *podAsk) setUUIDs(use, not []uint64) {
	for i, key := range use {
		a.c.use_uuids[i] = C.uint64_t(key)
	}
	for i, key := range not {
		a.c.no_uuids[i] = C.uint64_t(key)
	}
	a.c.use_uuid_count, a.c.no_uuid_count = C.uint32_t(len(use)), C.uint32_t(len(not))
}

// mix is knowledge of which pods are typical here; nil = the shipped one.
// Immutable.
type mix struct {
	c       *C.krux_mix
	version uint64 // 1, 2, ...
}

func (m *mix) number() uint64 {
	if m == nil {
		return 0
	}
	return m.version
}

func (m *mix) pointer() *C.krux_mix {
	if m == nil {
		return nil
	}
	return m.c
}

// learner counts the pods that arrive, and the cards that there are. Any
// goroutine may call.
type learner struct {
	mu    sync.Mutex // guards the following
	c     *C.krux_cluster
	mixes uint64 // made so far
	nodes map[string]uint32
}

// setNode tells of a node's cards; inv = nil: it has none any more. How many of
// a model there are is what makes a model scarce; what is used of them does not
// matter here.
func (l *learner) setNode(name string, inv *nodeInventory) {
	l.mu.Lock()
	defer l.mu.Unlock()
	index, known := l.nodes[name]
	if inv == nil {
		if known {
			C.krux_cluster_remove(l.c, C.uint32_t(index))
		}
		return
	}
	if !known {
		if len(l.nodes) >= C.KRUX_MAX_NODES {
			return
		}
		index = uint32(len(l.nodes))
		l.nodes[name] = index
	}
	gpus := make([]gpuState, len(inv.gpus))
	for i := range inv.gpus {
		gpus[i] = newGPUState(&inv.gpus[i], 1)
	}
	var host C.krux_node
	C.krux_cluster_set(l.c, C.uint32_t(index), &host, (*C.krux_gpu)(unsafe.Pointer(first(gpus))), C.size_t(len(gpus)))
}

func newLearner() (*learner, error) {
	c := C.krux_cluster_new()
	if c == nil {
		return nil, errors.New("no memory for the engine")
	}
	l := &learner{c: c, nodes: map[string]uint32{}}
	runtime.AddCleanup(l, func(c *C.krux_cluster) { C.krux_cluster_free(c) }, c)
	return l, nil
}

// learn tells of a pod that has arrived; r = nil: one that asks for no GPU. It
// gives the new mix when it is time for one, else nil.
func (l *learner) learn(r *request) *mix {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count(r) != 1 {
		return nil
	}
	c := C.krux_cluster_mix(l.c)
	runtime.KeepAlive(l)
	if c == nil {
		return nil
	}
	l.mixes++
	m := &mix{c, l.mixes}
	runtime.AddCleanup(m, func(c *C.krux_mix) { C.krux_mix_free(c) }, c)
	return m
}

// count is krux_cluster_learn. Most pods of a cluster are plain ones: nothing is allocated for them.
func (l *learner) count(r *request) C.int {
	if r == nil {
		return C.krux_cluster_learn(l.c, nil, nil, 0)
	}
	containers := cContainers(r.containers)
	return C.krux_cluster_learn(l.c, &r.ask.c, first(containers), C.size_t(len(containers)))
}

// plan places all containers of a pod on one node's GPUs. plans[i] belongs to
// containers[i], and is nil when the verdict is not "fits".
func plan(host *hostState, gpus []gpuState, r *request) (plans [][]placedGPU, v verdict) {
	placements := make([]C.krux_placement, len(r.containers))
	cc := cContainers(r.containers)
	C.krux_plan(r.mix.pointer(), &host.c, (*C.krux_gpu)(unsafe.Pointer(first(gpus))), C.size_t(len(gpus)), &r.ask.c,
		first(cc), C.size_t(len(cc)), first(placements), &v.c)
	runtime.KeepAlive(r.mix)
	if !v.fits() {
		return nil, v
	}
	plans = make([][]placedGPU, len(r.containers))
	for i := range placements {
		p := &placements[i]
		for k := 0; k < int(p.count); k++ {
			plans[i] = append(plans[i], placedGPU{int(p.gpu[k]), uint64(p.memory_mib[k])})
		}
	}
	return plans, v
}

// classKey tells requests apart that the engine could answer differently.
func classKey(r *request) string {
	cc := cContainers(r.containers)
	size := unsafe.Sizeof(C.krux_container{})
	key := make([]byte, 0, unsafe.Sizeof(r.ask.c)+size*uintptr(len(cc)))
	key = append(key, unsafe.Slice((*byte)(unsafe.Pointer(&r.ask.c)), unsafe.Sizeof(r.ask.c))...)
	return string(append(key, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(cc))), size*uintptr(len(cc)))...))
}

func (c *container) demand() Demand {
	return Demand{
		Container: c.name, GPUs: uint32(c.c.gpus), MemoryMiB: uint64(c.c.memory_mib),
		Percent: uint32(c.c.memory_percent), Cores: uint32(c.c.cores),
	}
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
