package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy"
	"ckptplan/internal/strategy/solve"
	"ckptplan/internal/unit"
)

// Optimization is what `optimize` prints as JSON; the tables show the same. Without a plan that fits, Plan is nil and
// Reason is there. SmallestBudgetBytes is there if no plan leaves the whole reserve.
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
	// Target is the trainer that has to run the plan, Shape the family of plans that it is of. RestrictionPrice is the
	// share by which the step is longer than without a target.
	Target              string            `json:"target,omitempty"`
	Shape               strategy.Shape    `json:"shape,omitempty"`
	RestrictionPrice    *float64          `json:"restriction_price,omitempty"`
	Solution            *Solution         `json:"solution,omitempty"`
	Certificate         *plan.Certificate `json:"certificate,omitempty"`
	SmallestBudgetBytes unit.Bytes        `json:"smallest_budget_bytes,omitempty"`
	Reason              string            `json:"reason,omitempty"`
	Hints               []Hint            `json:"hints,omitempty"`
	Explanation         []string          `json:"explanation,omitempty"`

	estimation *Estimation // the plan first, then the alternatives
	target     *strategy.Target
	verdict    string // that nothing fits
	leanest    bool   // the plan is the one with the lowest peak, not the fastest
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

// Objective is what the best plan is best in.
type Objective string

// The objectives of --objective.
const (
	Fastest    Objective = "time"
	Throughput Objective = "throughput" // the micro batch is chosen, too
	Memory     Objective = "memory"     // the lowest peak, whatever it costs
	MaxBatch   Objective = "max-batch"  // the largest micro batch for which a plan fits
	MaxSeq     Objective = "max-seq"    // the longest sequence for which a plan fits
)

// Objectives lists them.
var Objectives = []Objective{Fastest, Throughput, Memory, MaxBatch, MaxSeq}

// OptimizeRequest is what a plan is wanted for.
type OptimizeRequest struct {
	// Class is auto, flat or nested; MaxForwards bounds how often a layer's forward runs in a nested plan, 0: no bound.
	Class       string
	MaxForwards int
	// Offload allows plans that keep tensors on the host; Window and HostMemory are as in strategy.Request.
	Offload    bool
	Window     int
	HostMemory unit.Bytes
	Objective  Objective
	// Target is the trainer that has to run the plan, or nil. It goes with the objective Fastest.
	Target *strategy.Target
	// GlobalBatch is the number of sequences a step that accumulation must make up, for Throughput; 0: any.
	GlobalBatch     int
	Card            Card
	Device, Reserve unit.Bytes
	// Tool is the version that the plan file names.
	Tool string
}

// Optimize finds the best plan under the budget and holds the named strategies against it.
func (s *Study) Optimize(ctx context.Context, req OptimizeRequest) (*Optimization, error) {
	program, err := s.Program()
	if err != nil {
		return nil, err
	}
	r := strategy.Request{
		Budget: req.Device, Reserve: req.Reserve, Sheet: req.Card.Sheet, Class: req.Class, MaxForwards: req.MaxForwards,
		Offload: req.Offload, OffloadWindow: req.Window, HostMemory: req.HostMemory,
	}
	var res *strategy.Result
	switch req.Objective {
	case Memory:
		if res, err = strategy.Leanest(ctx, program, r); err == nil {
			res.Named, err = s.baselines(ctx)
		}
	case Throughput:
		return s.throughput(ctx, r, req)
	case MaxBatch, MaxSeq:
		return s.largest(ctx, r, req)
	default:
		if req.Target != nil {
			return s.restricted(ctx, program, r, req)
		}
		res, err = strategy.Optimize(ctx, program, r)
	}
	var none *strategy.NoPlanError
	switch {
	case errors.As(err, &none) && none.Leanest != nil && s.fit(req, none.Leanest) == Tight:
		return s.tightPlan(ctx, req, none)
	case errors.As(err, &none) && none.Leanest != nil:
		return s.infeasible(ctx, req, none)
	case err != nil:
		return nil, err
	}
	if req.Objective == Memory {
		return s.optimization(req, res)
	}
	return s.certified(ctx, program, req, r, res)
}

// fit is the verdict on a step.
func (s *Study) fit(req OptimizeRequest, tl *memory.Timeline) Verdict {
	return Budget{Device: req.Device, Reserve: req.Reserve, Sheet: req.Card.Sheet}.Fit(unit.Bytes(tl.Peak.Bytes)).Verdict
}

// tightPlan is the plan with the lowest peak where none leaves the whole reserve and this one may run: the verdict that
// estimate has for it.
func (s *Study) tightPlan(ctx context.Context, req OptimizeRequest, none *strategy.NoPlanError) (*Optimization, error) {
	o, err := s.optimization(req, &strategy.Result{
		Class: none.Class, Leanest: true, Plan: none.LeanestPlan, Timeline: none.Leanest, Named: none.Named,
	})
	if err != nil {
		return nil, err
	}
	o.SmallestBudgetBytes = none.Smallest
	if o.Hints, err = o.estimation.hints(ctx, true); err != nil {
		return nil, err
	}
	o.Warnings = append(o.Warnings, fmt.Sprintf("no plan leaves the whole reserve, which takes a budget of %s; this one has the lowest peak and may run,"+
		" if allocator and CUDA context take less than is counted: verify it on the device, or give --reserve", none.Smallest.Both()))
	return o, nil
}

// found is the fastest plan at the study's own sizes, with its certificate.
func (s *Study) found(ctx context.Context, req OptimizeRequest, r strategy.Request) (*Optimization, *strategy.Result, error) {
	program, err := s.Program()
	if err != nil {
		return nil, nil, err
	}
	res, err := strategy.Optimize(ctx, program, r)
	if err != nil {
		return nil, nil, err
	}
	o, err := s.certified(ctx, program, req, r, res)
	return o, res, err
}

// certified is a plan that was found to be the fastest, with its certificate.
func (s *Study) certified(ctx context.Context, program *memory.Program, req OptimizeRequest, r strategy.Request, res *strategy.Result) (*Optimization, error) {
	o, err := s.optimization(req, res)
	if err != nil {
		return nil, err
	}
	c, err := strategy.Certify(ctx, program, r, res)
	if err != nil {
		return nil, err
	}
	o.Certificate, o.Plan.Certificate = c, c
	return o, nil
}

// optimization is a plan that was found. others are set beside it, before the named strategies.
func (s *Study) optimization(req OptimizeRequest, res *strategy.Result, others ...*Price) (*Optimization, error) {
	name := res.Plan.Strategy
	if req.Target != nil {
		name = req.Target.Name
	}
	o, err := s.judged(req, Choice{Name: name, Plan: res.Plan}, res.Timeline, res.Named, others...)
	if err != nil {
		return nil, err
	}
	o.TensorBudgetBytes = res.TensorBudget
	for _, m := range res.Menu {
		o.Menu = append(o.Menu, MenuItem{m.Option.Name, optionWords(&m.Option), m.Save, m.Backward, m.Time})
	}
	o.target, o.leanest = req.Target, res.Leanest
	o.Class, o.Objective, o.Solution = res.Class, cmp.Or(req.Objective, Fastest), solutionOf(res)
	o.Plan = o.file(req, s.Spec, res.Plan)
	o.Explanation = o.explain(res.Plan)
	return o, nil
}

// infeasible says what would do where no plan does.
func (s *Study) infeasible(ctx context.Context, req OptimizeRequest, none *strategy.NoPlanError) (*Optimization, error) {
	o, err := s.judged(req, Choice{Name: "the leanest plan", Plan: none.LeanestPlan}, none.Leanest, none.Named)
	if err != nil {
		return nil, err
	}
	o.SmallestBudgetBytes, o.verdict = none.Smallest, none.Error()
	o.Reason = fmt.Sprintf("%s: the leanest plan peaks at %s in the %s", none.Error(), o.Estimate.Peak.TensorBytes.Both(), where(none.Leanest))
	o.Hints, err = o.estimation.hints(ctx, true)
	return o, err
}

// judged holds a plan and the alternatives against the budget.
func (s *Study) judged(req OptimizeRequest, best Choice, tl *memory.Timeline, as []strategy.Alternative, others ...*Price) (*Optimization, error) {
	prices, err := s.prices(best, tl, as, others...)
	if err != nil {
		return nil, err
	}
	e := s.assemble(prices, Request{Card: req.Card, Device: req.Device, Reserve: req.Reserve})
	e.choose(0)
	o := &Optimization{
		FormatVersion: formatVersion, BudgetBytes: req.Device, Model: e.Model, GPU: e.GPU, Assumptions: e.Assumptions,
		Warnings: e.Warnings, Estimate: &e.Estimates[0], Alternatives: append([]Entry{}, e.Estimates[1:]...), estimation: e,
	}
	for _, it := range e.budget.Items(o.Estimate.Peak.TensorBytes) {
		o.Reserve = append(o.Reserve, ReserveItem(it))
	}
	return o, nil
}

// baselines prices the named strategies where the solver did not.
func (s *Study) baselines(ctx context.Context) ([]strategy.Alternative, error) {
	var out []strategy.Alternative
	for _, name := range strategy.Baselines {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		named, err := plan.Named(name, s.Graph().Layers)
		if err != nil {
			continue // a K that this model does not have
		}
		p, err := s.Price(Choice{Name: name, Plan: named})
		var unfit *StrategyError
		switch {
		case errors.As(err, &unfit):
			continue // a part that this model does not have
		case err != nil:
			return nil, err
		}
		out = append(out, strategy.Alternative{Name: name, Timeline: p.Timeline})
	}
	return out, nil
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

// prices are the best plan and the alternatives, with who holds the bytes of their peaks.
func (s *Study) prices(best Choice, tl *memory.Timeline, as []strategy.Alternative, others ...*Price) ([]*Price, error) {
	p, err := s.settle(best, tl)
	if err != nil {
		return nil, err
	}
	out := append([]*Price{p}, others...)
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
	if most := mostForwards(p.Nodes); most > 1 && o.Class == "nested" {
		out = append(out, fmt.Sprintf("A segment keeps its input alone; right before its backward its layers run again together. No layer runs forward as a whole more than %d times a step.", most))
	}
	why := ""
	if early && treated < layers && o.Class == "flat" {
		why = "The first layers are recomputed and the last are kept: backward frees the last ones before it needs the room to recompute the first. "
	}
	return append(out, why+o.best())
}

// best says in what the plan is the best.
func (o *Optimization) best() string {
	switch {
	case o.leanest && o.target != nil:
		return fmt.Sprintf("It has the lowest peak of the plans tried that %s can run.", o.target.Title)
	case o.leanest && o.Class == "nested":
		return "No nested plan has a lower peak, by prices on the safe side: where they count more bytes than a simulation does, one may exist."
	case o.leanest:
		return fmt.Sprintf("No %s plan has a lower peak.", o.Class)
	case o.target != nil:
		return fmt.Sprintf("It is the fastest plan within the budget that %s can run: %s.", o.target.Title, o.Shape)
	case o.Class == "nested" && o.Solution.Status == string(solve.Optimal):
		return "No nested plan within the budget is faster, by prices on the safe side: where they count more bytes than a simulation does, a slightly faster plan may exist."
	case o.Solution.Status == string(solve.Optimal):
		return fmt.Sprintf("No %s plan within the budget is faster.", o.Class)
	}
	return fmt.Sprintf("The search stopped: a faster plan can save at most %s a step.", unit.Duration(o.Solution.TimeNanoseconds-o.Solution.BoundNanoseconds))
}

// Feasible is true if there is a plan.
func (o *Optimization) Feasible() bool { return o.Plan != nil }
