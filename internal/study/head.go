package study

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ckptplan/internal/model"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

// The changes of head and loss that a user may allow.
const (
	DropLogits  = "drop-logits"  // the caller frees the model's output before backward
	ChunkedLoss = "chunked-loss" // head and loss over parts of the tokens, each recomputed
)

// HeadChoices are all of them.
var HeadChoices = []string{DropLogits, ChunkedLoss}

// lossChunks are the numbers of parts that are tried: more parts hold fewer logits at a time, and run more kernels.
var lossChunks = []int{2, 4, 8, 16, 32}

// heads is the menu of heads: the spec as it is, and each change that the user allows, with a warning that says so.
func (s *Study) heads() []*spec.Spec {
	out := []*spec.Spec{s.Spec}
	add := func(warning string, change func(*spec.Train)) {
		t := *s.Spec
		change(&t.Train)
		t.Warnings = append(slices.Clone(t.Warnings), warning)
		out = append(out, &t)
	}
	if slices.Contains(s.Allow, DropLogits) && s.Spec.Train.KeepLogits {
		add("chosen by --allow: --keep-logits=false, the model's output is freed before backward", func(t *spec.Train) { t.KeepLogits = false })
	}
	if slices.Contains(s.Allow, ChunkedLoss) && model.Chunkable(s.Spec) {
		for _, n := range lossChunks {
			if n > s.Spec.Train.LossChunks && n <= s.Spec.B*s.Spec.S {
				add(fmt.Sprintf("chosen by --allow: --loss-chunks %d, head and loss in parts, each recomputed", n), func(t *spec.Train) { t.LossChunks = n })
			}
		}
	}
	return out
}

// bestHead tries every allowed head and gives the best answer; ties go to the first, which changes least.
func bestHead[T any](s *Study, ask func(*Study) (T, error), better func(a, b T) bool) (T, error) {
	var best T
	for i, spec := range s.heads() {
		h := s
		if i > 0 {
			var err error
			if h, err = New(spec, s.Request); err != nil {
				return best, err
			}
		}
		x, err := ask(h)
		if err != nil {
			return best, err
		}
		if i == 0 || better(x, best) {
			best = x
		}
	}
	return best, nil
}

// bestPlan is bestHead for a plan.
func (s *Study) bestPlan(ask func(*Study) (*Optimization, error)) (*Optimization, error) {
	return bestHead(s, ask, (*Optimization).better)
}

// fastestHead is the study of the head with the fastest flat plan, or with the smallest budget if none fits.
func (s *Study) fastestHead(ctx context.Context) (*Study, error) {
	if len(s.Allow) == 0 {
		return s, nil
	}
	type answer struct {
		study          *Study
		step, smallest int64 // step 0: no plan
	}
	best, err := bestHead(s, func(h *Study) (answer, error) {
		res, err := h.search(ctx)
		var none *strategy.NoPlanError
		switch {
		case errors.As(err, &none):
			return answer{study: h, smallest: int64(none.Smallest)}, nil
		case err != nil:
			return answer{}, err
		}
		return answer{study: h, step: res.Timeline.Times.Step()}, nil
	}, func(a, b answer) bool {
		if a.step == 0 || b.step == 0 {
			return a.step > b.step || a.step == b.step && a.smallest < b.smallest
		}
		return a.step < b.step
	})
	return best.study, err
}

// better is true if o answers a request better than another answer does.
func (o *Optimization) better(than *Optimization) bool {
	if a, b := o.rank(), than.rank(); a != b || a < fitting {
		return a > b || a == b && o.SmallestBudgetBytes < than.SmallestBudgetBytes
	}
	a, b := o.Estimate, than.Estimate
	more, most := unit.Bytes(0), false
	switch o.Objective {
	case Memory:
		more = b.Peak.TensorBytes - a.Peak.TensorBytes
	case MaxBatch:
		more, most = unit.Bytes(o.Model.Batch-than.Model.Batch), true
	case MaxSeq:
		more, most = unit.Bytes(o.Model.Seq-than.Model.Seq), true
	case Throughput:
		most = true
	}
	switch {
	case more != 0:
		return more > 0
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
