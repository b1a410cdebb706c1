package plugin

import (
	"context"
	"math"

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

// Score is the engine's, by the pod's node policy.
func (k *Krux) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	r := requestOf(state)
	if r == nil {
		return 0, nil
	}
	if a := k.answerFor(r, info); a.code == fwk.Success {
		return a.score, nil
	}
	return math.MinInt64, nil
}

// ScoreExtensions is part of fwk.ScorePlugin.
func (k *Krux) ScoreExtensions() fwk.ScoreExtensions { return k }

// NormalizeScore gives the best node alone the highest score, and the others
// less in proportion; of the few best that PreFilter named, nothing: these differ
// little, and the stock preferences would decide between them. kube-scheduler breaks ties at random, which costs several
// percent of a cluster's GPUs; here the name decides. The plugin's weight
// (deploy/config/scheduler.yaml) says how much one step counts beside the stock
// preferences.
func (k *Krux) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	if len(scores) == 0 {
		return nil
	}
	best, worst := 0, scores[0].Score
	for i := range scores {
		if s := &scores[i]; s.Score > scores[best].Score || s.Score == scores[best].Score && s.Name < scores[best].Name {
			best = i
		}
		worst = min(worst, scores[i].Score)
	}
	if r := requestOf(state); r != nil && r.narrowed {
		for i := range scores {
			scores[i].Score = fwk.MinNodeScore
		}
		scores[best].Score = fwk.MaxNodeScore
		return nil
	}
	// In floating point: the range of raw scores may exceed an int64.
	low, span := float64(worst), float64(scores[best].Score)-float64(worst)
	for i := range scores {
		const belowBest = fwk.MaxNodeScore - 1
		part := 1.0
		if span > 0 {
			part = (float64(scores[i].Score) - low) / span
		}
		scores[i].Score = int64(part * float64(belowBest))
	}
	scores[best].Score = fwk.MaxNodeScore
	return nil
}
