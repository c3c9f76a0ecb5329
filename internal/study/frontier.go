package study

import (
	"context"
	"fmt"
	"sort"

	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

// Frontier is every pair of peak and time that no flat plan beats in both, by rising peak.
type Frontier struct {
	FormatVersion int             `json:"format_version"`
	Model         Model           `json:"model"`
	GPU           Card            `json:"gpu"`
	Assumptions   []string        `json:"assumptions"`
	Warnings      []string        `json:"warnings,omitempty"`
	BudgetBytes   unit.Bytes      `json:"budget_bytes,omitempty"`
	TensorBudget  unit.Bytes      `json:"tensor_budget_bytes,omitempty"`
	Points        []FrontierPoint `json:"frontier"`
	// LossBytes is the most by which rounding sizes can have raised a peak.
	LossBytes unit.Bytes      `json:"loss_bytes,omitempty"`
	Named     []NamedStrategy `json:"named"`
	// AtBudget is the fastest point within the budget, AtMore that of a device with 1 GB more. They are absent without
	// a budget, or if no point fits.
	AtBudget *FrontierPoint `json:"at_budget,omitempty"`
	AtMore   *FrontierPoint `json:"at_1gb_more,omitempty"`
	// Verdict judges the fastest point within the budget, or the lowest peak if none leaves the whole reserve. It is
	// absent without a budget.
	Verdict *Verdict `json:"verdict,omitempty"`

	Fit  Fit   `json:"-"` // what Verdict is of
	base int64 // the step without recompute, in nanoseconds
}

// FrontierPoint is a peak and the least time for it.
type FrontierPoint struct {
	PeakBytes         unit.Bytes `json:"peak_tensor_bytes"`
	ExtraNanoseconds  int64      `json:"extra_ns"`
	StepNanoseconds   int64      `json:"step_ns"`
	TokensPerSecond   float64    `json:"tokens_per_second"`
	RecomputeOverhead float64    `json:"recompute_overhead"`
}

// NamedStrategy is a named strategy beside the frontier.
type NamedStrategy struct {
	Strategy string `json:"strategy"`
	FrontierPoint
	// Behind is how much longer its step is than that of the fastest flat plan with at most its peak, as a share of that
	// plan's step. It is absent where no flat plan has so low a peak (segments are another class).
	Behind *float64 `json:"behind,omitempty"`
	// MoreBytes is how much lower the peak of a flat plan can be that is at least as fast.
	MoreBytes unit.Bytes `json:"more_bytes"`
}

// Frontier finds the whole trade-off between peak and time of flat plans. A quantum above 1 rounds sizes up inside the
// search.
func (s *Study) Frontier(ctx context.Context, quantum unit.Bytes) (*Frontier, error) {
	flat := *s
	flat.Class = "flat"
	h, err := flat.fastestHead(ctx)
	if err != nil {
		return nil, err
	}
	return h.frontier(ctx, quantum)
}

func (s *Study) frontier(ctx context.Context, quantum unit.Bytes) (*Frontier, error) {
	program, err := s.program()
	if err != nil {
		return nil, err
	}
	t, err := strategy.TradeOffs(ctx, program, s.Request.Request, int64(quantum))
	if err != nil {
		return nil, err
	}
	none, err := s.named("none")
	if err != nil {
		return nil, err
	}
	e := s.assemble(none)
	e.choose(0)
	f := &Frontier{
		FormatVersion: FormatVersion, Model: e.Model, GPU: e.GPU, Assumptions: e.Assumptions, BudgetBytes: s.Budget,
		LossBytes: unit.Bytes(t.Loss), base: t.BaseTime,
	}
	if t.Quantum > 0 && quantum <= 1 && t.Loss > 0 {
		f.Warnings = append(f.Warnings, fmt.Sprintf("forward and backward bind at once, and the exact search grew too large: sizes were rounded up to multiples of %s, as with --quantum", unit.Bytes(t.Quantum)))
	}
	accum := int64(max(1, s.Spec.Train.GradAccum)) // a point's time is that of one micro batch
	for _, p := range t.Points {
		f.Points = append(f.Points, f.point(unit.Bytes(p.Peak), accum*p.Time, s.Tokens()))
	}
	for _, a := range t.Named {
		x := a.Timeline.Times
		n := NamedStrategy{Strategy: a.Name, FrontierPoint: f.point(unit.Bytes(a.Timeline.Peak.Bytes), x.Step()-t.BaseTime, s.Tokens())}
		f.hold(&n)
		f.Named = append(f.Named, n)
	}
	if b := s.Device(); b.Device > 0 {
		f.TensorBudget = b.Tensors()
		f.AtBudget = f.Within(f.TensorBudget)
		judged := f.AtBudget
		if judged == nil {
			judged = &f.Points[0]
		}
		f.Fit = FitOf(judged.PeakBytes, b)
		f.Verdict = &f.Fit.Verdict
		b.Device += unit.GB
		f.AtMore = f.Within(b.Tensors())
	}
	return f, nil
}

func (f *Frontier) point(peak unit.Bytes, extra, tokens int64) FrontierPoint {
	step := f.base + extra
	p := FrontierPoint{PeakBytes: peak, ExtraNanoseconds: extra, StepNanoseconds: step}
	if f.base > 0 {
		p.TokensPerSecond, p.RecomputeOverhead = float64(tokens)/unit.Duration(step).Seconds(), float64(extra)/float64(f.base)
	}
	return p
}

// hold compares a named strategy with the points of the frontier.
func (f *Frontier) hold(n *NamedStrategy) {
	if best := f.Within(n.PeakBytes); best != nil && best.StepNanoseconds > 0 {
		behind := max(0, float64(n.StepNanoseconds)/float64(best.StepNanoseconds)-1)
		n.Behind = &behind
	}
	for _, p := range f.Points {
		if p.ExtraNanoseconds <= n.ExtraNanoseconds {
			n.MoreBytes = max(0, n.PeakBytes-p.PeakBytes)
			break
		}
	}
}

// Within is the fastest point whose peak is at most that many bytes, nil if there is none.
func (f *Frontier) Within(peak unit.Bytes) *FrontierPoint {
	i := sort.Search(len(f.Points), func(i int) bool { return f.Points[i].PeakBytes > peak })
	if i == 0 {
		return nil
	}
	return &f.Points[i-1]
}

// Fits is false if there is a budget in which not even the lowest peak may run.
func (f *Frontier) Fits() bool { return f.Verdict == nil || *f.Verdict != OOM }
