package report

import (
	"context"
	"errors"
	"fmt"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
	"ckptplan/internal/unit"
)

// Optimization is what `optimize` prints as JSON; the tables show the same. Without a plan that fits, Plan is nil and
// SmallestBudgetBytes and Reason are there.
type Optimization struct {
	FormatVersion       int           `json:"format_version"`
	Model               Model         `json:"model"`
	GPU                 Card          `json:"gpu"`
	Assumptions         []string      `json:"assumptions"`
	Warnings            []string      `json:"warnings,omitempty"`
	BudgetBytes         unit.Bytes    `json:"budget_bytes"`
	TensorBudgetBytes   unit.Bytes    `json:"tensor_budget_bytes,omitempty"`
	Reserve             []ReserveItem `json:"reserve,omitempty"`
	Plan                *plan.File    `json:"plan"`
	Estimate            *Entry        `json:"estimate,omitempty"` // of the plan; without one, of the leanest plan
	Alternatives        []Entry       `json:"alternatives"`
	Menu                []MenuItem    `json:"menu,omitempty"`
	Class               string        `json:"class,omitempty"` // of the plan: flat or nested
	Solution            *Solution     `json:"solution,omitempty"`
	SmallestBudgetBytes unit.Bytes    `json:"smallest_budget_bytes,omitempty"`
	Reason              string        `json:"reason,omitempty"`
	Hints               []Hint        `json:"hints,omitempty"`
	Explanation         []string      `json:"explanation,omitempty"`

	estimation *Estimation // the plan first, then the alternatives
}

// MenuItem is one way to treat a layer, with its price at a layer in the middle of the chain.
type MenuItem struct {
	Option string `json:"option"`
	Words  string `json:"words"`
	// KeptBytes stay between the layer's forward and backward; BackwardBytes is the most its backward needs on top.
	KeptBytes       unit.Bytes `json:"kept_bytes"`
	BackwardBytes   unit.Bytes `json:"backward_bytes"`
	TimeNanoseconds int64      `json:"time_ns"`
}

// Solution says how far the solver got.
type Solution struct {
	Status           string `json:"status"`
	TimeNanoseconds  int64  `json:"time_ns"`
	BoundNanoseconds int64  `json:"bound_ns"`
	Closed           string `json:"closed,omitempty"`
}

// OptimizeRequest is what a plan is wanted for.
type OptimizeRequest struct {
	// Class is auto, flat or nested.
	Class string
	Card            Card
	Device, Reserve unit.Bytes
	// Tool is the version that the plan file names.
	Tool string
}

// Optimize finds the fastest plan under the budget and holds the named strategies against it.
func (s *Study) Optimize(ctx context.Context, req OptimizeRequest) (*Optimization, error) {
	program, err := s.Program()
	if err != nil {
		return nil, err
	}
	o := &Optimization{FormatVersion: formatVersion, BudgetBytes: req.Device, Alternatives: []Entry{}}
	res, err := strategy.Optimize(ctx, program, strategy.Request{
		Budget: req.Device, Reserve: req.Reserve, Sheet: req.Card.Sheet, Class: req.Class,
	})
	var none *strategy.NoPlanError
	var best Choice
	var tl *memory.Timeline
	var alternatives []strategy.Alternative
	switch {
	case errors.As(err, &none) && none.Leanest != nil:
		o.SmallestBudgetBytes = none.Smallest
		best, tl, alternatives = Choice{Name: "the leanest plan", Plan: none.LeanestPlan}, none.Leanest, none.Named
	case err != nil:
		return nil, err
	default:
		best, tl, alternatives = Choice{Name: "optimal", Plan: res.Plan}, res.Timeline, res.Named
		o.TensorBudgetBytes = res.TensorBudget
		for _, m := range res.Menu {
			o.Menu = append(o.Menu, MenuItem{m.Option.Name, optionWords(&m.Option), m.Save, m.Backward, m.Time})
		}
		o.Class, o.Solution = res.Class, solutionOf(res)
	}
	prices, err := s.prices(best, tl, alternatives)
	if err != nil {
		return nil, err
	}
	e := s.assemble(prices, Request{Card: req.Card, Device: req.Device, Reserve: req.Reserve})
	e.choose(0)
	o.estimation = e
	o.Model, o.GPU, o.Assumptions, o.Warnings = e.Model, e.GPU, e.Assumptions, e.Warnings
	o.Estimate, o.Alternatives = &e.Estimates[0], append(o.Alternatives, e.Estimates[1:]...)
	for _, it := range e.budget.Items(o.Estimate.Peak.TensorBytes) {
		o.Reserve = append(o.Reserve, ReserveItem(it))
	}
	if none != nil {
		o.Reason = fmt.Sprintf("%s: the leanest plan peaks at %s in the %s", none.Error(), o.Estimate.Peak.TensorBytes.Both(), where(prices[0].Timeline))
		o.Hints, err = e.hints(ctx)
		return o, err
	}
	o.Plan = o.file(req, s.Spec, res.Plan)
	o.Explanation = o.explain(res.Plan)
	return o, nil
}

// solutionOf is how far the search for the plan got.
func solutionOf(res *strategy.Result) *Solution {
	if n := res.Nested; n != nil {
		return &Solution{Status: string(n.Status), TimeNanoseconds: n.Time, BoundNanoseconds: n.Bound}
	}
	s := res.Solution
	return &Solution{string(s.Status), s.Time, s.Bound, s.Closed}
}

// prices are the best plan and the alternatives, with who holds the bytes of their peaks.
func (s *Study) prices(best Choice, tl *memory.Timeline, as []strategy.Alternative) ([]*Price, error) {
	p, err := s.settle(best, tl)
	if err != nil {
		return nil, err
	}
	out := []*Price{p}
	for _, a := range as {
		named, err := plan.Named(a.Name, s.Graph().Layers)
		if err != nil {
			return nil, err
		}
		if p, err = s.settle(Choice{Name: a.Name, Plan: named}, a.Timeline); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// file is the plan with what is predicted of it.
func (o *Optimization) file(req OptimizeRequest, spec *model.Spec, p *plan.Plan) *plan.File {
	f := plan.NewFile(p, spec, req.Tool)
	f.Class, f.Budget = o.Class, req.Device
	en := o.Estimate
	f.Predicted = &plan.Predicted{Peak: en.Peak.TensorBytes, Phase: en.Peak.Phase, Block: en.Peak.Block}
	if en.Time != nil {
		f.Predicted.StepTime, f.Predicted.GPU, f.Predicted.Overhead = en.Time.StepNanoseconds, o.GPU.Name, en.Time.RecomputeOverhead
	}
	return f
}

// explain says in sentences which layers are recomputed, what that buys, and why these.
func (o *Optimization) explain(p *plan.Plan) []string {
	layers := o.Model.Layers
	treated, early := 0, true
	rs := runs(p, layers)
	for i, r := range rs {
		if !r.keeps {
			treated += r.last - r.first + 1
			early = early && (i == 0 || !rs[i-1].keeps)
		}
	}
	if treated == 0 {
		return []string{"Everything fits without recomputing anything."}
	}
	out := []string{fmt.Sprintf("%d of %d layers recompute something: %s.", treated, layers, planWords(p, layers))}
	for i, p := range o.estimation.prices {
		if len(p.Plan.Nodes) == 0 {
			was := o.estimation.Estimates[i]
			saved := was.Peak.TensorBytes - o.Estimate.Peak.TensorBytes
			cost := ""
			if o.Estimate.Time != nil {
				cost = fmt.Sprintf(" for %s more time", percent(100*o.Estimate.Time.RecomputeOverhead))
			}
			out = append(out, fmt.Sprintf("That lowers the peak by %s against keeping everything%s.", saved.Both(), cost))
		}
	}
	why := ""
	if early && treated < layers {
		why = "The first layers are recomputed and the last are kept: backward frees the last ones before it needs the room to recompute the first. "
	}
	switch {
	case o.Solution.Status == string(strategy.Optimal):
		why += fmt.Sprintf("No %s plan within the budget is faster.", o.Class)
	default:
		why += fmt.Sprintf("The search stopped: a faster plan can save at most %s a step.", unit.Duration(o.Solution.TimeNanoseconds-o.Solution.BoundNanoseconds))
	}
	return append(out, why)
}

// Feasible is true if there is a plan.
func (o *Optimization) Feasible() bool { return o.Plan != nil }
