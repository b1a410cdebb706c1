package plugin

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxSlotsPerGPU bounds what a device plugin may advertise for each GPU.
const maxSlotsPerGPU = 128

// nodeUse is a node's GPUs with all that is used of them.
type nodeUse struct {
	gpus  []gpuState // as in names
	names []nodeGPU
	index map[string]int
	host  hostState
	// nominees in the NodeInfo: pods that the scheduler counts here although
	// they are not placed yet.
	nominees []*v1.Pod
}

// countUse adds up the pods of the NodeInfo except `self`.
func (k *Krux) countUse(inv *nodeInventory, info fwk.NodeInfo, self types.UID) *nodeUse {
	use := newNodeUse(inv, slotsPerGPU(info, len(inv.gpus)))
	const mib = 1 << 20
	room, used := info.GetAllocatable(), info.GetRequested()
	use.host = newHostState(room.GetMilliCPU(), used.GetMilliCPU(), room.GetMemory()/mib, used.GetMemory()/mib)
	for _, pi := range info.GetPods() {
		switch pod := pi.GetPod(); {
		case pod.UID == self:
		case pod.Spec.NodeName != "":
			use.add(k.sharesOf(pod))
		case asksForGPU(pod):
			// A member of a pod group that is placed already comes again as nominee.
			if e := k.ledger.get(pod.UID); e == nil || e.node != info.Node().Name {
				use.nominees = append(use.nominees, pod)
			}
		}
	}
	k.reportOverlaps(info.Node(), use)
	return use
}

func newNodeUse(inv *nodeInventory, slots uint32) *nodeUse {
	use := &nodeUse{names: inv.gpus, gpus: make([]gpuState, len(inv.gpus)), index: inv.index}
	for i := range inv.gpus {
		use.gpus[i] = newGPUState(&inv.gpus[i], slots)
	}
	return use
}

// slotsPerGPU follows from what the device plugin registered: anonymous slots,
// the same number for each GPU.
func slotsPerGPU(info fwk.NodeInfo, gpus int) uint32 {
	if gpus == 0 {
		return 0
	}
	slots := info.GetAllocatable().GetScalarResources()[resourceGPU] / int64(gpus)
	return uint32(min(max(slots, 0), maxSlotsPerGPU))
}

// add charges shares; those of GPUs that the node no longer has count nowhere.
func (use *nodeUse) add(shares []podShare) {
	for _, s := range shares {
		if i, ok := use.index[s.uuid]; ok {
			use.gpus[i].add(s.share)
		}
	}
}

// clone can be charged without changing the original.
func (use *nodeUse) clone() *nodeUse {
	c := *use
	c.gpus = slices.Clone(use.gpus)
	c.nominees = slices.Clone(use.nominees)
	return &c
}

// place plans the pod beside what is used already.
func (use *nodeUse) place(r *request) ([][]placedGPU, verdict) {
	return plan(&use.host, use.gpus, r)
}

// sharesFor gives the plan's peaks by GPU name.
func (use *nodeUse) sharesFor(r *request, plans [][]placedGPU) ([]podShare, error) {
	peaks, err := peak(r.containers, plans, len(use.gpus))
	if err != nil {
		return nil, err
	}
	var shares []podShare
	for i, p := range peaks {
		if p.slots > 0 {
			shares = append(shares, podShare{use.names[i].uuid, p})
		}
	}
	return shares, nil
}

// placeNominees plans pods that wait for preempted ones to leave, so that the
// pod at hand leaves them their room; the highest priority comes first. False
// when one of them does not fit yet: then nobody of its priority or below may
// take what it waits for.
func (k *Krux) placeNominees(use *nodeUse, nominees []*v1.Pod) bool {
	slices.SortFunc(nominees, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)), cmp.Compare(a.UID, b.UID))
	})
	for _, pod := range nominees {
		r, err := k.parse(pod)
		if err != nil || r == nil {
			continue
		}
		plans, v := use.place(r)
		if !v.fits() {
			return false
		}
		shares, err := use.sharesFor(r, plans)
		if err != nil {
			return false
		}
		use.add(shares)
	}
	return true
}

// asksForGPU says whether the pod is one of ours, without reading its request.
func asksForGPU(pod *v1.Pod) bool {
	return anyAsks(pod.Spec.Containers) || anyAsks(pod.Spec.InitContainers)
}

func anyAsks(containers []v1.Container) bool {
	for i := range containers {
		for _, list := range []v1.ResourceList{containers[i].Resources.Limits, containers[i].Resources.Requests} {
			for name := range list {
				if isOurs(name) {
					return true
				}
			}
		}
	}
	return false
}

func isOurs(name v1.ResourceName) bool {
	return name == resourceGPU || name == resourceMemory || name == resourceMemoryPercent || name == resourceCores
}

// sharesOf gives what a bound or assumed pod occupies. The ledger goes before
// the annotation: it is what the pod was placed with. A pod without a valid
// grant holds no share, since no node gives it a GPU; its slots are counted by
// NodeResourcesFit.
func (k *Krux) sharesOf(pod *v1.Pod) []podShare {
	if e := k.ledger.get(pod.UID); e != nil && e.node == pod.Spec.NodeName {
		return e.shares
	}
	text, ok := pod.Annotations[annotationGrant]
	if !ok {
		return nil
	}
	e := &entry{node: pod.Spec.NodeName, grant: text}
	shares, err := sharesOfGrant(pod, text)
	if err != nil {
		k.warn(pod, "KruxGrantRefused", fmt.Sprintf("krux: GRANT_INVALID: %v: the pod gets no GPU; delete it", err))
	}
	e.shares = shares
	return k.ledger.putIfAbsent(pod.UID, e).shares
}

// sharesOfGrant checks a grant against its pod and adds up its peak.
func sharesOfGrant(pod *v1.Pod, text string) ([]podShare, error) {
	g, err := parseGrant(text)
	if err != nil {
		return nil, err
	}
	if g.PodUID != string(pod.UID) {
		return nil, fmt.Errorf("grant: is for pod UID %.64q", g.PodUID)
	}
	if g.Node != pod.Spec.NodeName {
		return nil, fmt.Errorf("grant: is for node %.64q", g.Node)
	}
	containers, plans, uuids := grantPlan(pod, g)
	if len(containers) != len(g.Containers) {
		return nil, fmt.Errorf("grant: names a container that the pod does not have")
	}
	if len(uuids) > maxGPUsPerNode {
		return nil, fmt.Errorf("grant: names more than %d GPUs", maxGPUsPerNode)
	}
	peaks, err := peak(containers, plans, len(uuids))
	if err != nil {
		return nil, err
	}
	shares := make([]podShare, len(uuids))
	for i, p := range peaks {
		shares[i] = podShare{uuids[i], p}
	}
	return shares, nil
}

// grantPlan puts the grant into the pod's container order; GPUs are numbered as
// they appear.
func grantPlan(pod *v1.Pod, g *grant) (containers []container, plans [][]placedGPU, uuids []string) {
	add := func(name string, kind uint32) {
		gpus, ok := g.Containers[name]
		if !ok {
			return
		}
		c := container{name: name}
		setKind(&c.c, kind)
		setCores(&c.c, gpus[0].Cores)
		var plan []placedGPU
		for _, gpu := range gpus {
			i := slices.Index(uuids, gpu.UUID)
			if i < 0 {
				i = len(uuids)
				uuids = append(uuids, gpu.UUID)
			}
			plan = append(plan, placedGPU{i, gpu.MemoryMiB})
		}
		containers = append(containers, c)
		plans = append(plans, plan)
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Name, initKind(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Name, kindApp)
	}
	return containers, plans, uuids
}
