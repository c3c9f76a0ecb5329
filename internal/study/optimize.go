package study

import (
	"context"
	"errors"
	"fmt"

	"ckptplan/internal/export"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
	"ckptplan/internal/strategy/solve"
	"ckptplan/internal/unit"
)

// Optimization is the answer to `optimize` and `largest`. If no plan fits, Plan is nil and Reason is set.
// SmallestBudgetBytes is set if no plan leaves the whole reserve.
type Optimization struct {
	FormatVersion     int           `json:"format_version"`
	Model             Model         `json:"model"`
	GPU               Card          `json:"gpu"`
	Assumptions       []string      `json:"assumptions"`
	Warnings          []string      `json:"warnings,omitempty"`
	BudgetBytes       unit.Bytes    `json:"budget_bytes,omitempty"`
	TensorBudgetBytes unit.Bytes    `json:"tensor_budget_bytes,omitempty"`
	Reserve           []ReserveItem `json:"reserve,omitempty"`
	Plan              *plan.File    `json:"plan"`
	Estimate          *Entry        `json:"estimate,omitempty"` // of the plan; without one, of the leanest plan
	Alternatives      []Entry       `json:"alternatives"`
	Menu              []MenuItem    `json:"menu,omitempty"`
	Class             string        `json:"class,omitempty"` // of the plan: flat or nested
	Objective         Objective     `json:"objective,omitempty"`
	Batches           []Batch       `json:"batches,omitempty"` // with the objective throughput
	Largest           []Largest     `json:"largest,omitempty"` // with the objectives max-batch and max-seq
	// Target is the trainer that must run the plan, Shape the family of the plan. RestrictionPrice is the
	// share by which the step is longer than without a target.
	Target           string         `json:"target,omitempty"`
	Shape            strategy.Shape `json:"shape,omitempty"`
	RestrictionPrice *float64       `json:"restriction_price,omitempty"`
	// Lines are what goes into the target's settings; those of torch are a file, which ckptplan export writes.
	Lines               string            `json:"lines,omitempty"`
	Solution            *Solution         `json:"solution,omitempty"`
	Certificate         *plan.Certificate `json:"certificate,omitempty"`
	SmallestBudgetBytes unit.Bytes        `json:"smallest_budget_bytes,omitempty"`
	Reason              string            `json:"reason,omitempty"`
	Hints               []Hint            `json:"hints,omitempty"`
	Explanation         []string          `json:"explanation,omitempty"`

	// Estimation is the plan, then the alternatives. For is the target. Refusal says that no plan fits.
	Estimation *Estimation    `json:"-"`
	For        *export.Target `json:"-"`
	Refusal    string         `json:"-"`
	leanest    bool           // the plan is the one with the lowest peak, not the fastest
}

// MenuItem is one way to treat a layer, with its cost at a layer in the middle of the chain.
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

// Objective is the measure by which a plan is the best.
type Objective string

// The objectives of --objective.
const (
	Fastest    Objective = "time"
	Throughput Objective = "throughput" // the micro batch is chosen as well
	Memory     Objective = "memory"     // the lowest peak, whatever it costs
	MaxBatch   Objective = "max-batch"  // the largest micro batch for which a plan fits
	MaxSeq     Objective = "max-seq"    // the longest sequence for which a plan fits
)

// Optimize finds the fastest plan under the budget and compares the named strategies with it. With a target it is the
// fastest that the target can run.
func (s *Study) Optimize(ctx context.Context) (*Optimization, error) {
	return s.bestPlan(func(h *Study) (*Optimization, error) { return h.optimize(ctx) })
}

func (s *Study) optimize(ctx context.Context) (*Optimization, error) {
	if s.Target != nil {
		return s.restricted(ctx)
	}
	res, err := s.search(ctx)
	var none *strategy.NoPlanError
	switch {
	case errors.As(err, &none):
		return s.without(ctx, none)
	case err != nil:
		return nil, err
	}
	return s.certified(ctx, res)
}

// search finds the fastest plan of the class.
func (s *Study) search(ctx context.Context) (*strategy.Result, error) {
	p, err := s.program()
	if err != nil {
		return nil, err
	}
	return strategy.Optimize(ctx, p, s.Request.Request)
}

// Leanest finds the plan with the lowest peak, whatever it costs.
func (s *Study) Leanest(ctx context.Context) (*Optimization, error) {
	return s.bestPlan(func(h *Study) (*Optimization, error) {
		p, err := h.program()
		if err != nil {
			return nil, err
		}
		res, err := strategy.Leanest(ctx, p, h.Request.Request)
		if err != nil {
			return nil, err
		}
		o, err := h.optimization(res)
		if err != nil {
			return nil, err
		}
		o.Objective = Memory
		return o, nil
	})
}

// without is the answer if no plan leaves the whole reserve.
func (s *Study) without(ctx context.Context, none *strategy.NoPlanError) (*Optimization, error) {
	if s.fit(none.Leanest.Peak.Bytes).Verdict == Tight {
		return s.tightPlan(ctx, none)
	}
	return s.infeasible(ctx, none)
}

// tightPlan is the plan with the lowest peak, if none leaves the whole reserve and this one may still run. Its verdict is
// the one that estimate gives.
func (s *Study) tightPlan(ctx context.Context, none *strategy.NoPlanError) (*Optimization, error) {
	o, err := s.optimization(&strategy.Result{
		Class: none.Class, Leanest: true, Plan: none.LeanestPlan, Timeline: none.Leanest, Named: none.Named,
	})
	if err != nil {
		return nil, err
	}
	o.SmallestBudgetBytes = none.Smallest
	if o.Hints, err = o.Estimation.hints(ctx, true); err != nil {
		return nil, err
	}
	o.Warnings = append(o.Warnings, fmt.Sprintf("no plan leaves the whole reserve, which takes a budget of %s; this one has the lowest peak and may run,"+
		" if allocator and CUDA context take less than assumed: verify it on the device, or give --reserve", none.Smallest.Both()))
	return o, nil
}

// certified is a plan that was found to be the fastest, with its certificate.
func (s *Study) certified(ctx context.Context, res *strategy.Result) (*Optimization, error) {
	o, err := s.optimization(res)
	if err != nil {
		return nil, err
	}
	c, err := strategy.Certify(ctx, s.Request.Request, res)
	if err != nil {
		return nil, err
	}
	o.Certificate, o.Plan.Certificate = c, c
	return o, nil
}

// optimization is the answer for a plan that was found. others are compared with it, before the named strategies.
func (s *Study) optimization(res *strategy.Result, others ...*Simulation) (*Optimization, error) {
	name := res.Plan.Strategy
	if s.Target != nil {
		name = s.Target.Name
	}
	o, err := s.compared(&Simulation{Choice: Choice{Name: name, Plan: res.Plan}, Timeline: res.Timeline}, res.Named, others...)
	if err != nil {
		return nil, err
	}
	o.TensorBudgetBytes = res.TensorBudget
	for _, m := range res.Menu {
		o.Menu = append(o.Menu, MenuItem{m.Option.Name, optionWords(&m.Option), m.Save, m.Backward, m.Time})
	}
	o.For, o.leanest = s.Target, res.Leanest
	o.Class, o.Objective, o.Solution = res.Class, Fastest, solutionOf(res)
	o.Plan = s.file(o, res.Plan)
	o.Explanation = o.explain(res.Plan)
	if s.Target != nil && s.Target.Name != "torch" {
		if o.Lines, err = s.Target.Lines(o.Plan, s.layers()); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// infeasible says which budget would be enough where no plan fits.
func (s *Study) infeasible(ctx context.Context, none *strategy.NoPlanError) (*Optimization, error) {
	o, err := s.compared(&Simulation{Choice: Choice{Name: "the leanest plan", Plan: none.LeanestPlan}, Timeline: none.Leanest}, none.Named)
	if err != nil {
		return nil, err
	}
	o.SmallestBudgetBytes, o.Refusal = none.Smallest, none.Error()
	o.Reason = fmt.Sprintf("%s: the leanest plan peaks at %s in the %s", none.Error(), o.Estimate.Peak.TensorBytes.Both(), where(none.Leanest))
	o.Hints, err = o.Estimation.hints(ctx, true)
	return o, err
}

// compared sets a plan beside other steps and the named strategies, under the budget.
func (s *Study) compared(best *Simulation, as []strategy.Alternative, others ...*Simulation) (*Optimization, error) {
	xs := append([]*Simulation{best}, others...)
	for _, a := range as {
		named, err := plan.Named(a.Name, s.layers())
		if err != nil {
			return nil, err
		}
		xs = append(xs, &Simulation{Choice: Choice{Name: a.Name, Plan: named}, Timeline: a.Timeline})
	}
	e := s.assemble(xs...)
	e.choose(0)
	o := &Optimization{
		FormatVersion: FormatVersion, BudgetBytes: s.Budget, Model: e.Model, GPU: e.GPU, Assumptions: e.Assumptions,
		Warnings: e.Warnings, Estimate: &e.Estimates[0], Alternatives: append([]Entry{}, e.Estimates[1:]...), Estimation: e,
	}
	for _, it := range s.fit(best.Timeline.Peak.Bytes).Reserve {
		o.Reserve = append(o.Reserve, ReserveItem(it))
	}
	return o, nil
}

// solutionOf is how far the search for the plan got.
func solutionOf(res *strategy.Result) *Solution {
	if n := res.Nested; n != nil {
		closed := strategy.Recurrence
		if n.Nodes == nil {
			closed = "stopped"
		}
		return &Solution{string(n.Status), n.Time, n.Bound, closed}
	}
	s := res.Solution
	if s == nil {
		return nil // a member of a family, found by trying all
	}
	return &Solution{string(s.Status), s.Time, s.Bound, s.Closed}
}

// file is the plan with what is predicted of it.
func (s *Study) file(o *Optimization, p *plan.Plan) *plan.File {
	f := plan.NewFile(p, s.Spec, s.Tool)
	f.Class, f.Budget = o.Class, s.Budget
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
			treated += r.Last - r.First + 1
			early = early && (i == 0 || !rs[i-1].keeps)
		}
	}
	if treated == 0 {
		return []string{"Everything fits without recomputing anything."}
	}
	out := []string{fmt.Sprintf("%d of %d layers recompute something: %s.", treated, layers, PlanWords(p, layers))}
	for _, was := range o.Estimation.Estimates {
		if len(was.Simulation.Plan.Nodes) == 0 {
			saved := was.Peak.TensorBytes - o.Estimate.Peak.TensorBytes
			cost := ""
			if o.Estimate.Time != nil {
				cost = fmt.Sprintf(" for %s more time", unit.Percent(100*o.Estimate.Time.RecomputeOverhead))
			}
			out = append(out, fmt.Sprintf("That lowers the peak by %s%s, compared with keeping everything.", saved.Both(), cost))
		}
	}
	if most := mostForwards(p.Nodes); most > 1 && o.Class == "nested" {
		out = append(out, fmt.Sprintf("A segment keeps only its input; its layers run again together right before its backward. No layer runs forward as a whole more than %d times a step.", most))
	}
	why := ""
	if early && treated < layers && o.Class == "flat" {
		why = "The first layers are recomputed and the last are kept: backward frees the last ones before it needs the room to recompute the first. "
	}
	return append(out, why+o.best())
}

// best says in which sense the plan is the best.
func (o *Optimization) best() string {
	switch {
	case o.leanest && o.For != nil:
		return fmt.Sprintf("It has the lowest peak of the plans tried that %s can run.", o.For.Title)
	case o.leanest && o.Class == "nested":
		return "No nested plan has a lower peak by our slightly pessimistic estimates; where they overstate memory, one may exist."
	case o.leanest:
		return fmt.Sprintf("No %s plan has a lower peak.", o.Class)
	case o.For != nil:
		return fmt.Sprintf("It is the fastest plan within the budget that %s can run: %s.", o.For.Title, o.Shape)
	case o.Class == "nested" && o.Solution.Status == string(solve.Optimal):
		return "No nested plan within the budget is faster by our slightly pessimistic estimates; where they overstate memory, a slightly faster plan may exist."
	case o.Solution.Status == string(solve.Optimal):
		return fmt.Sprintf("No %s plan within the budget is faster.", o.Class)
	}
	return fmt.Sprintf("The search stopped: a faster plan can save at most %s a step.", unit.Duration(o.Solution.TimeNanoseconds-o.Solution.BoundNanoseconds))
}

// Feasible is true if there is a plan.
func (o *Optimization) Feasible() bool { return o.Plan != nil }
