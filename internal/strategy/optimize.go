// Package strategy answers which plan of a model is the fastest under a budget, or has the lowest peak. Package
// menu says what may be done to a layer and what that costs, package solve chooses for each layer, and the simulator judges
// the answer: a plan is returned only if its simulated peak is within the budget.
package strategy

import (
	"context"
	"errors"
	"fmt"
	"math"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/solve"
	"ckptplan/internal/unit"
)

// Request says what a plan must fit and which plans may be chosen.
type Request struct {
	// Budget is the whole device, in bytes.
	Budget unit.Bytes
	// Reserve is what is left beside the tensors; negative takes the sheet's own itemised reserve.
	Reserve unit.Bytes
	// Sheet is the card of the times.
	Sheet *gpu.Sheet
	// kind narrows the choice to plans that run on one graph (graphs): selective (no region is a whole layer), or all.
	kind string
	// Class is the class of plans: flat (every layer takes one option, nothing is recomputed twice), nested (segments
	// inside segments), or auto: flat, and nested where it gains at least half a per cent or where flat has no plan.
	Class string
	// Offload lets layers keep tensors in pinned host memory; HostMemory, in bytes, caps what they put there (0: no cap).
	// OffloadWindow is the number of layers that may run while a copy is under way; see plan.Region.Window.
	Offload       bool
	OffloadWindow int
	HostMemory    unit.Bytes
	// MaxForwards bounds how often a layer's forward may run in a nested plan; 0 means no bound.
	MaxForwards int
}

// MenuEntry is one option of a layer with its price at a layer in the middle of the chain.
type MenuEntry struct {
	Option plan.Option
	// Save is what it keeps between forward and backward, Backward the most its own backward needs on top of what
	// earlier layers keep.
	Save, Backward unit.Bytes
	// Time is its extra time in nanoseconds.
	Time int64
}

// Result is the fastest plan under a budget.
type Result struct {
	Plan     *plan.Plan
	Timeline *memory.Timeline
	// Class that the plan is the fastest of, with Leanest the leanest: flat or nested. Solution and Problem are of the
	// flat problem; Solution is nil if that has no plan. Nested is set for a nested plan.
	Class   string
	Leanest bool // the plan has the lowest peak of its class, and is not the fastest
	// Untreated: the plan treats no layer, on a graph of its own (see graphs), so that none is faster.
	Untreated bool
	Solution  *solve.Solution
	Problem   *solve.Problem
	Nested    *solve.NestedSolution
	Menu      []MenuEntry
	space     *space       // that was searched
	nested    *nestedModel // whose chain Nested answers
	bound     int64        // a step that no flat plan of the space is below
	// leanestNested is the nested plan with the lowest peak, where that was looked for.
	leanestNested *nestedPlan
	// TensorBudget is what the budget leaves for tensors.
	TensorBudget unit.Bytes
	Named        []Alternative
}

// NoPlanError says that no plan of the class fits.
type NoPlanError struct {
	Budget unit.Bytes
	// Smallest is the smallest budget of the whole device for which a plan exists.
	Smallest unit.Bytes
	// Leanest is the simulation of the plan that needs least.
	Leanest     *memory.Timeline
	LeanestPlan *plan.Plan
	Class       string // of the leanest plan: flat or nested
	Named       []Alternative
}

func (e *NoPlanError) Error() string {
	return fmt.Sprintf("no plan fits %s: the smallest budget that works is %s", e.Budget.Both(), e.Smallest.Both())
}

// ErrNotChain is returned for a nested plan of a model whose layers are not a chain.
var ErrNotChain = errors.New("nested plans are for chains of layers: in an encoder-decoder model tensors jump over layers; --class flat plans it layer by layer")

// Optimize finds the fastest plan of a class whose simulated peak, with the reserve, is within the budget.
func Optimize(ctx context.Context, p *memory.Program, req Request) (*Result, error) {
	g, err := graphsOf(p)
	if err != nil {
		return nil, err
	}
	return g.optimize(ctx, req)
}

func (g graphs) optimize(ctx context.Context, req Request) (*Result, error) {
	if err := req.fitClass(g); err != nil {
		return nil, err
	}
	return g.fastest(req, func(req Request) (*Result, error) {
		if req.Offload && req.OffloadWindow > 0 {
			return g.windowed(ctx, req)
		}
		return g.search(ctx, req)
	})
}

// fitClass makes the class flat if the layers are not a chain.
func (r *Request) fitClass(g graphs) error {
	if g.of("full").Graph.Chain {
		return nil
	}
	if r.Class == "nested" {
		return ErrNotChain
	}
	r.Class = "flat"
	return nil
}

// search is Optimize among the plans of one kind.
func (g graphs) search(ctx context.Context, req Request) (*Result, error) {
	sp, err := g.space(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	tensor := req.tensors()
	prob := sp.Problem()
	prob.Budget = int64(tensor)
	if req.OffloadWindow > 0 {
		prob.Base += sp.Staging(req.OffloadWindow)
	}
	res := &Result{TensorBudget: tensor, Problem: prob, space: sp}
	mid := &prob.Blocks[len(prob.Blocks)/2]
	for k := range sp.Options {
		c := &mid.Choices[k]
		res.Menu = append(res.Menu, MenuEntry{Option: sp.Options[k], Save: unit.Bytes(c.Save), Backward: unit.Bytes(c.Backward), Time: c.Time})
	}
	if res.Named, err = g.baselines(ctx, req); err != nil {
		return nil, err
	}
	if sp.differ() {
		none, err := sp.untreated(ctx)
		if err != nil {
			return nil, err
		}
		if unit.Bytes(none.Timeline.Peak.Bytes) <= tensor { // the fastest plan of all: see graphs
			res.Class, res.Plan, res.Timeline, res.Solution, res.Untreated = none.Class, none.Plan, none.Timeline, none.Solution, true
			return res, nil
		}
	}
	flat, tl, err := sp.fastestFlat(ctx, prob)
	var inf *solve.InfeasibleError
	if err != nil && !errors.As(err, &inf) {
		return nil, err
	}
	if flat != nil && req.Class != "nested" {
		res.Class, res.Solution, res.Plan, res.Timeline = "flat", flat, planOf(sp.Options, flat.Choice), tl
		res.bound = sp.Untreated.Times.Step() + micro(sp.Untreated)*flat.Bound
		if req.Class == "flat" || extra(tl) < nestedGain {
			return res, nil
		}
	}
	if req.Class != "flat" {
		if err := sp.improve(ctx, req, res); err != nil && !errors.As(err, &inf) {
			return nil, err
		}
	}
	if res.Plan == nil {
		return nil, sp.noPlan(ctx, prob, req, res)
	}
	return res, nil
}

// allows is true if plans of the kind that is asked for may take an option.
func (r *Request) allows(o *plan.Option) bool {
	kind := (&plan.Plan{Nodes: []plan.Node{{Option: o}}}).Kind()
	return r.kind != "selective" || kind != "full"
}

// Device is the budget with the part that is not for tensors.
func (r *Request) Device() gpu.Budget {
	return gpu.Budget{Device: r.Budget, Reserve: r.Reserve, Sheet: r.Sheet}
}

// tensors is what the budget leaves for tensors.
func (r *Request) tensors() unit.Bytes { return r.Device().Tensors() }

// nestedGain is the least share of the step's time for which auto takes a nested plan.
const nestedGain = 0.005

// extra is the recompute and transfer time over the time of a step without them.
func extra(t *memory.Timeline) float64 {
	x := t.Times.Extra()
	return float64(x) / float64(max(1, t.Times.Step()-x))
}

// improve puts a nested plan in the result if it is faster by nestedGain than what is there.
func (sp *space) improve(ctx context.Context, req Request, res *Result) error {
	slowest := int64(math.MaxInt64)
	if res.Timeline != nil { // of a plan that is faster than the one at hand by nestedGain
		slowest = int64(float64(res.Timeline.Times.Step())*(1-nestedGain)-float64(sp.Untreated.Times.Step())) / micro(res.Timeline)
	}
	found, err := sp.nestedPlan(ctx, sp.Program, int64(res.TensorBudget), req.MaxForwards, slowest)
	if err == nil && found == nil && res.Plan == nil && int64(res.TensorBudget) >= sp.Floor() {
		if found, err = sp.leanestNested(ctx, sp.Program, req); err != nil {
			return err
		}
		switch {
		case found.timeline.Peak.Bytes > int64(res.TensorBudget):
			res.leanestNested, found = found, nil
		case found.solution.Nodes != nil:
			if err = found.prove(ctx, nil, int64(res.TensorBudget)); errors.Is(err, solve.ErrEffort) {
				found, err = found.unproved(), nil
			}
		}
	}
	if err != nil || found == nil {
		return err
	}
	if res.Timeline != nil && float64(found.timeline.Times.Step()) > float64(res.Timeline.Times.Step())*(1-nestedGain) {
		return nil
	}
	res.Class, res.Plan, res.Timeline, res.Nested, res.nested = "nested", found.plan, found.timeline, found.solution, found.model
	return nil
}

// keepAll is the plan that treats no layer.
func keepAll() *plan.Plan { return &plan.Plan{Strategy: "optimal"} }

// planOf writes choices as runs of layers with the same option; layers that keep everything are left out.
func planOf(options []plan.Option, choice []int) *plan.Plan {
	pl := &plan.Plan{Strategy: "optimal"}
	for i := 0; i < len(choice); {
		j := i
		for j+1 < len(choice) && choice[j+1] == choice[i] {
			j++
		}
		if o := options[choice[i]]; len(o.Regions) > 0 {
			pl.Nodes = append(pl.Nodes, plan.Node{First: i, Last: j, Option: &o})
		}
		i = j + 1
	}
	return pl
}

// noPlan finds the smallest budget of the class, and simulates the plan that reaches it.
func (sp *space) noPlan(ctx context.Context, prob *solve.Problem, req Request, res *Result) error {
	e := &NoPlanError{Budget: req.Budget, Named: res.Named}
	least, err := sp.leanest(ctx, prob, req, res.leanestNested)
	if err != nil {
		return err
	}
	e.LeanestPlan, e.Leanest, e.Class = least.Plan, least.Timeline, least.Class
	e.Smallest = req.Device().Need(unit.Bytes(least.Timeline.Peak.Bytes))
	return e
}
