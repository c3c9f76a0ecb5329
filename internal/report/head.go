package report

import (
	"context"
	"fmt"
	"slices"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/strategy"
)

// OptimizeHead finds the best plan over the choices of head and loss that are allowed (strategy.HeadChoices), by what the
// request wants; of equals the one that changes least.
func OptimizeHead(ctx context.Context, spec *model.Spec, sheet *gpu.Sheet, allowed []string, req OptimizeRequest) (*Optimization, error) {
	var best *Optimization
	for _, h := range strategy.Heads(spec, allowed) {
		study, err := NewStudy(WithHead(spec, h), sheet)
		if err != nil {
			return nil, err
		}
		o, err := study.Optimize(ctx, req)
		if err != nil {
			return nil, err
		}
		if best == nil || o.better(best, req.Objective) {
			best = o
		}
	}
	return best, nil
}

// WithHead is a spec with a head of strategy.Heads, and a warning that says so where it is another than the spec's.
func WithHead(spec, head *model.Spec) *model.Spec {
	s := *head
	switch {
	case s.Train.LossChunks > spec.Train.LossChunks:
		s.Warnings = append(slices.Clone(s.Warnings), fmt.Sprintf("chosen by --allow: --loss-chunks %d, head and loss in parts, each recomputed", s.Train.LossChunks))
	case s.Train.KeepLogits != spec.Train.KeepLogits:
		s.Warnings = append(slices.Clone(s.Warnings), "chosen by --allow: --keep-logits=false, the model's output is let go before backward")
	}
	return &s
}

// better is true if o answers a request better than another answer does.
func (o *Optimization) better(than *Optimization, by Objective) bool {
	if a, b := o.rank(), than.rank(); a != b || a < fitting {
		return a > b || a == b && o.SmallestBudgetBytes < than.SmallestBudgetBytes
	}
	a, b := o.Estimate, than.Estimate
	larger, most := 0, false
	switch by {
	case Memory:
		if a.Peak.TensorBytes != b.Peak.TensorBytes {
			return a.Peak.TensorBytes < b.Peak.TensorBytes
		}
	case MaxBatch:
		larger, most = o.Model.Batch-than.Model.Batch, true
	case MaxSeq:
		larger, most = o.Model.Seq-than.Model.Seq, true
	case Throughput:
		most = true
	}
	switch {
	case larger != 0:
		return larger > 0
	case a.Time == nil || b.Time == nil:
		return false
	case most:
		return a.Time.TokensPerSecond > b.Time.TokensPerSecond
	}
	return a.Time.StepNanoseconds < b.Time.StepNanoseconds
}

// fitting is the rank of a plan that leaves the whole reserve.
const fitting = 2

// rank tells a plan that leaves the whole reserve from one that may run, and that from none.
func (o *Optimization) rank() int {
	switch {
	case o.Plan == nil:
		return 0
	case o.SmallestBudgetBytes > 0:
		return 1
	}
	return fitting
}
