package study

import (
	"context"
	"errors"
	"fmt"

	"ckptplan/internal/model"
	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

const (
	// SeqStep is the grain of the longest sequence, in tokens.
	SeqStep = 128
	// mostSteps is where the search for the largest size ends.
	mostSteps = 1 << 24
)

// Largest is the largest micro batch, or the longest sequence, that a strategy trains within the budget.
type Largest struct {
	Strategy string `json:"strategy"`
	// Batch and Seq are 0 if not even the smallest fits. The other fields are then absent.
	Batch             int        `json:"batch"`
	Seq               int        `json:"seq"`
	PeakBytes         unit.Bytes `json:"peak_tensor_bytes,omitempty"`
	TokensPerSecond   float64    `json:"tokens_per_second,omitempty"`
	RecomputeOverhead *float64   `json:"recompute_overhead,omitempty"`
}

// searchEnds is the note of a search that ended before it reached a size that does not fit.
const searchEnds = "the search ends here: larger sizes are not estimated, whether they fit or not"

// Largest finds the largest micro batch (MaxBatch) or the longest sequence (MaxSeq) for which some plan fits, and what the
// plainest strategies reach.
func (s *Study) Largest(ctx context.Context, by Objective) (*Optimization, error) {
	if by == MaxSeq && s.Spec.Image != nil {
		return nil, errors.New("the sequence of a vision model is its patches: it cannot be longer")
	}
	return s.bestPlan(func(h *Study) (*Optimization, error) { return h.largest(ctx, by) })
}

func (s *Study) largest(ctx context.Context, by Objective) (*Optimization, error) {
	roomy := *s
	n, err := doubled(func(n int) (bool, error) {
		if by == MaxSeq && s.Spec.Positions == "learned" { // what fits in memory, ignoring the number of positions
			spec := *s.Spec
			spec.MaxS = max(spec.MaxS, n*SeqStep)
			roomy.Spec = &spec
		}
		v, err := roomy.sized(by, n)
		if v == nil {
			return false, err
		}
		_, err = v.search(ctx)
		return fitsOr(err)
	})
	if err != nil {
		return nil, err
	}
	if n == 0 { // not even the smallest fits: say which budget would
		v, err := s.sized(by, 1)
		if err != nil {
			return nil, err
		}
		return v.optimize(ctx)
	}
	limited, whole := "", n
	if by == MaxSeq && s.Spec.Positions == "learned" && s.Spec.MaxS > 0 && n*SeqStep > s.Spec.MaxS {
		limited = fmt.Sprintf("memory would suffice for %s tokens, but the model has learned positions for %s", unit.Grouped(int64(n*SeqStep)), unit.Grouped(int64(s.Spec.MaxS)))
		whole = s.Spec.MaxS / SeqStep
	} else if next, err := s.sized(by, n+1); n >= mostSteps || next == nil && err == nil {
		limited = searchEnds
	}
	v, err := s.sized(by, n)
	if err != nil {
		return nil, err
	}
	res, err := v.search(ctx)
	if err != nil {
		return nil, err
	}
	o, err := v.certified(ctx, res)
	if err != nil {
		return nil, err
	}
	o.Objective = by
	for _, name := range []string{"none", "full"} {
		l, err := s.largestNamed(ctx, by, name, whole)
		if err != nil {
			return nil, err
		}
		o.Largest = append(o.Largest, l)
	}
	best := Largest{Strategy: res.Plan.Strategy, Batch: v.Spec.B, Seq: v.Spec.S, PeakBytes: o.Estimate.Peak.TensorBytes}
	best.timed(o.Estimate.Time)
	o.Largest = append(o.Largest, best)
	if limited != "" {
		o.Warnings = append(o.Warnings, limited)
	}
	return o, nil
}

// fitsOr separates the error that no plan fits from the others.
func fitsOr(err error) (bool, error) {
	var none *strategy.NoPlanError
	if errors.As(err, &none) {
		return false, nil
	}
	return err == nil, err
}

// sized is the study with a micro batch of n, or a sequence of n steps but no longer than positions are learned for. It is
// nil where that is too large to be estimated.
func (s *Study) sized(by Objective, n int) (*Study, error) {
	o := model.Overrides{Batch: &n}
	if by == MaxSeq {
		length := n * SeqStep
		if s.Spec.Positions == "learned" && s.Spec.MaxS > 0 {
			length = min(length, s.Spec.MaxS)
		}
		o = model.Overrides{Seq: &length}
	}
	spec, err := Vary(s.Spec, o)
	if n > 1 && (err != nil || spec.TooLarge()) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return New(spec, s.Request)
}

// doubled is the largest n for which something is true: it doubles n until that is false, then bisects.
func doubled(ok func(n int) (bool, error)) (int, error) {
	lo, hi := 0, 1
	for {
		yes, err := ok(hi)
		if err != nil {
			return 0, err
		}
		if !yes {
			break
		}
		lo = hi
		if hi *= 2; hi > mostSteps {
			return lo, nil
		}
	}
	return bisected(lo, hi, ok)
}

// bisected is the largest n from lo up to, but not, hi for which something is true.
func bisected(lo, hi int, ok func(n int) (bool, error)) (int, error) {
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		yes, err := ok(mid)
		if err != nil {
			return 0, err
		}
		if yes {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, nil
}

// largestNamed is the most steps, up to most, at which a named strategy stays within the tensor budget.
func (s *Study) largestNamed(ctx context.Context, by Objective, name string, most int) (Largest, error) {
	best := Largest{Strategy: name}
	_, err := bisected(0, most+1, func(n int) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		v, err := s.sized(by, n)
		if err != nil {
			return false, err
		}
		x, err := v.named(name)
		if err != nil {
			return false, err
		}
		peak := unit.Bytes(x.Timeline.Peak.Bytes)
		if peak > s.Device().Tensors() {
			return false, nil
		}
		best.Batch, best.Seq, best.PeakBytes = v.Spec.B, v.Spec.S, peak
		best.timed(timeOf(x.Timeline, v.Tokens()))
		return true, nil
	})
	return best, err
}

func (l *Largest) timed(t *Time) {
	if t != nil {
		l.TokensPerSecond, l.RecomputeOverhead = t.TokensPerSecond, &t.RecomputeOverhead
	}
}
