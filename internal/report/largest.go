package report

import (
	"context"
	"errors"
	"fmt"

	"ckptplan/internal/model"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

// seqStep is the grain of the longest sequence, in tokens.
const seqStep = 128

// Largest is the largest micro batch, or the longest sequence, that a strategy trains within the budget.
type Largest struct {
	Strategy string `json:"strategy"`
	// Batch and Seq are 0 if not even the smallest fits. What follows is absent then.
	Batch             int        `json:"batch"`
	Seq               int        `json:"seq"`
	PeakBytes         unit.Bytes `json:"peak_tensor_bytes,omitempty"`
	TokensPerSecond   float64    `json:"tokens_per_second,omitempty"`
	RecomputeOverhead *float64   `json:"recompute_overhead,omitempty"`
}

// searchEnds is the note of a search that did not end with a step that fits nothing.
const searchEnds = "the search ends here: what is larger is not estimated, whether it fits or not"

// largest finds the largest micro batch or the longest sequence for which some plan fits, and what the plainest
// strategies reach.
func (s *Study) largest(ctx context.Context, r strategy.Request, req OptimizeRequest) (*Optimization, error) {
	step := 1
	var n int
	var err error
	if req.Objective == MaxBatch {
		n, err = strategy.MaxBatch(ctx, s.Spec, r)
	} else {
		step = seqStep
		n, err = strategy.MaxSequence(ctx, s.Spec, r, step)
	}
	var none *strategy.NoPlanError
	if errors.As(err, &none) { // not even the smallest fits: say what would do
		study, err := s.sized(req.Objective, step)
		if err != nil {
			return nil, err
		}
		req.Objective = Fastest
		return study.Optimize(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	most, limited := s.Spec.MaxS, ""
	if req.Objective == MaxSeq && s.Spec.Positions == "learned" && most > 0 && n > most {
		limited = fmt.Sprintf("memory would do for %s tokens, but the model has learned positions for %s", grouped(int64(n)), grouped(int64(most)))
		n = most
	}
	study, err := s.sized(req.Objective, n)
	if err != nil {
		return nil, err
	}
	o, res, err := study.found(ctx, req, r)
	if err != nil {
		return nil, err
	}
	budget := Budget{Device: req.Device, Reserve: req.Reserve, Sheet: req.Card.Sheet}
	for _, name := range []string{"none", "full"} {
		l, err := s.largestNamed(ctx, req.Objective, name, n/step, step, budget.Tensors())
		if err != nil {
			return nil, err
		}
		o.Largest = append(o.Largest, l)
	}
	best := Largest{Strategy: res.Plan.Strategy, Batch: study.Spec.B, Seq: study.Spec.S, PeakBytes: o.Estimate.Peak.TensorBytes}
	if t := o.Estimate.Time; t != nil {
		best.TokensPerSecond, best.RecomputeOverhead = t.TokensPerSecond, &t.RecomputeOverhead
	}
	o.Largest = append(o.Largest, best)
	if limited == "" && (n/step >= strategy.MostTried || s.sizedSpec(req.Objective, n+step).TooLarge()) {
		limited = searchEnds
	}
	if limited != "" {
		o.Warnings = append(o.Warnings, limited)
	}
	return o, nil
}

// sized is the study of the spec with a micro batch or a sequence length of n.
func (s *Study) sized(by Objective, n int) (*Study, error) {
	return NewStudy(s.sizedSpec(by, n), s.Sheet)
}

func (s *Study) sizedSpec(by Objective, n int) *model.Spec {
	spec := *s.Spec
	if by == MaxBatch {
		spec.B = n
		return &spec
	}
	spec.S = n
	if spec.DecoderS > 0 {
		spec.DecoderS = n
	}
	if spec.Positions != "learned" {
		spec.MaxS = max(spec.MaxS, n)
	}
	return &spec
}

// largestNamed bisects for the most steps, up to most, at which a named strategy stays within the tensor budget.
func (s *Study) largestNamed(ctx context.Context, by Objective, name string, most, step int, tensors unit.Bytes) (Largest, error) {
	best := Largest{Strategy: name}
	for lo, hi := 0, most+1; hi-lo > 1; {
		if err := ctx.Err(); err != nil {
			return best, err
		}
		mid := (lo + hi) / 2
		study, err := s.sized(by, mid*step)
		if err != nil {
			return best, err
		}
		named, err := plan.Named(name, study.Graph().Layers)
		if err != nil {
			return best, err
		}
		p, err := study.Price(Choice{Name: name, Plan: named})
		if err != nil {
			return best, err
		}
		peak := unit.Bytes(p.Timeline.Peak.Bytes)
		if peak > tensors {
			hi = mid
			continue
		}
		lo = mid
		best.Batch, best.Seq, best.PeakBytes = study.Spec.B, study.Spec.S, peak
		if t := timeOf(p.Timeline, study.Tokens()); t != nil {
			best.TokensPerSecond, best.RecomputeOverhead = t.TokensPerSecond, &t.RecomputeOverhead
		}
	}
	return best, nil
}

// largestTable sets the strategies side by side.
func (o *Optimization) largestTable() Table {
	t := Table{
		Title:   "the largest micro batch within the budget",
		Columns: []Column{{Name: "strategy"}, {Name: "micro batch"}, {Name: "peak"}, {Name: "extra compute"}, {Name: "tokens/s"}},
	}
	size := func(l *Largest) int { return l.Batch }
	if o.Objective == MaxSeq {
		t.Title = fmt.Sprintf("the longest sequence within the budget, in steps of %d tokens", seqStep)
		t.Columns[1].Name = "tokens"
		size = func(l *Largest) int { return l.Seq }
	}
	for i := range o.Largest {
		l := &o.Largest[i]
		if size(l) == 0 {
			t.Rows = append(t.Rows, Row{l.Strategy, nil, nil, nil, nil})
			t.Notes = append(t.Notes, l.Strategy+" fits with none")
			continue
		}
		r := Row{l.Strategy, Count(size(l)), l.PeakBytes, nil, nil}
		if l.RecomputeOverhead != nil {
			r[3], r[4] = Percent(100**l.RecomputeOverhead), Rate(l.TokensPerSecond)
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}
