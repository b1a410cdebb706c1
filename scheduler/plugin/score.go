package plugin

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreScore leaves pods that are not Krux's alone.
func (k *Krux) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if requestOf(state) == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score is the engine's: how tightly the pod fits.
func (k *Krux) Score(_ context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	r := requestOf(state)
	if r == nil {
		return 0, nil
	}
	use, status := k.useOf(info, pod.UID)
	if status != nil {
		return 0, nil
	}
	use.placeNominees(use.nominees)
	_, v := use.place(r)
	return v.score(), nil
}

// ScoreExtensions is part of fwk.ScorePlugin.
func (k *Krux) ScoreExtensions() fwk.ScoreExtensions { return k }

// NormalizeScore turns scores into ranks: the best node alone has the highest
// one. kube-scheduler breaks ties at random, which costs several percent of a
// cluster's GPUs; here the name decides.
func (k *Krux) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b].Score, scores[a].Score), cmp.Compare(scores[a].Name, scores[b].Name))
	})
	last := int64(max(len(scores)-1, 1))
	for rank, i := range order {
		scores[i].Score = fwk.MaxNodeScore * (last - int64(rank)) / last
	}
	return nil
}
