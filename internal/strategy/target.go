package strategy

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/menu"
	"ckptplan/internal/strategy/solve"
	"ckptplan/internal/unit"
)

// Shape is a family of plans that a trainer can express.
type Shape string

// The shapes, from the narrowest.
const (
	NoLayer   Shape = "none"               // nothing checkpointed
	AllLayers Shape = "every layer"        // every layer its own region
	EveryK    Shape = "one layer in k"     // layers 0, k, 2k …
	FirstN    Shape = "the first n layers" // Megatron's block
	Uniform   Shape = "uniform segments"   // groups of k consecutive layers
	LayerList Shape = "a list of layers"   // any set of layers, each its own region
	Modules   Shape = "modules, the same in every layer"
	ModuleMap Shape = "modules, chosen layer by layer"
	SameOps   Shape = "saved ops, the same in every layer"
	AnyOption Shape = "any option, layer by layer" // the flat class
	Segments  Shape = "segments of any length"
	Nesting   Shape = "segments inside segments"
)

// Restricted is the fastest plan of some shapes, beside the unrestricted one.
type Restricted struct {
	*Result
	// Shape is the family the plan is of.
	Shape Shape
	// Free is the plan without the restriction, the restricted one itself where the search without a target, which is of
	// one class, has none.
	Free *Result
}

// Overhead is the share by which the step is longer than without the restriction.
func (r *Restricted) Overhead() float64 {
	return float64(r.Timeline.Times.Step())/float64(r.Free.Timeline.Times.Step()) - 1
}

// Expressible are the plans that a trainer's settings can say.
type Expressible struct {
	Shapes []Shape
	// Part is true for a part of a layer that can be a region; nil: all can.
	Part func(span string) bool
	// Runs is true for a plan that the settings say; nil: all of the shapes.
	Runs func(*plan.Plan) bool
}

// option is true for an option whose parts can all be regions.
func (e *Expressible) option(o *plan.Option) bool {
	return e.Part == nil || !slices.ContainsFunc(o.Regions, func(r plan.Region) bool { return r.Span != "layer" && !e.Part(r.Span) })
}

// OptimizeFor finds the fastest plan under the budget among those of some shapes. Families with few members are tried one
// by one in the simulator; layer lists and module maps are flat problems with a mask on the menu. The error that none fits
// names the leanest plan of the shapes.
func OptimizeFor(ctx context.Context, p *memory.Program, req Request, can Expressible) (*Restricted, error) {
	g, err := graphsOf(p)
	if err != nil {
		return nil, err
	}
	free, err := g.optimize(ctx, req)
	var none *NoPlanError
	switch {
	case errors.As(err, &none):
		free = &Result{Named: none.Named, TensorBudget: req.tensors()}
	case err != nil:
		return nil, err
	}
	out := &Restricted{Free: free}
	best := *free
	best.Solution, best.Nested, best.Plan, best.Timeline, best.Untreated = nil, nil, nil, nil, false
	var leanest *memory.Timeline
	var leanestPlan *plan.Plan
	try := func(sh Shape, pl *plan.Plan, err error) error {
		if err != nil || can.Runs != nil && !can.Runs(pl) {
			return nil // the model has no such part or too few layers
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		tl, err := g.judge(ctx, pl, req.Sheet)
		if err != nil {
			return nil
		}
		if leanest == nil || tl.Peak.Bytes < leanest.Peak.Bytes {
			leanest, leanestPlan = tl, pl
		}
		if unit.Bytes(tl.Peak.Bytes) > free.TensorBudget {
			return nil
		}
		if best.Timeline == nil || tl.Times.Step() < best.Timeline.Times.Step() {
			best.Plan, best.Timeline, out.Shape = pl, tl, sh
		}
		return nil
	}
	for _, sh := range can.Shapes {
		for pl, err := range g.membersOf(ctx, req, free, sh, &can) {
			if err := try(sh, pl, err); err != nil {
				return nil, err
			}
		}
	}
	if leanest == nil && none != nil {
		return nil, none
	}
	if best.Plan == nil {
		e := &NoPlanError{Budget: req.Budget, Named: free.Named, Leanest: leanest, LeanestPlan: leanestPlan, Class: "flat"}
		e.Smallest = req.Device().Need(unit.Bytes(leanest.Peak.Bytes))
		return nil, e
	}
	best.Class = "flat"
	out.Result = &best
	if free.Plan == nil {
		out.Free = out.Result
	}
	return out, nil
}

// membersOf yields the plans of a shape that can be the fastest under the budget.
func (g graphs) membersOf(ctx context.Context, req Request, free *Result, sh Shape, can *Expressible) func(func(*plan.Plan, error) bool) {
	p := g.of("full")
	layers := p.Graph.Layers
	return func(yield func(*plan.Plan, error) bool) {
		named := func(prefix string, from, to int) {
			for k := from; k <= to; k++ {
				if !yield(plan.Named(prefix+strconv.Itoa(k), layers)) {
					return
				}
			}
		}
		masked := func(allowed func(*plan.Option) bool) {
			for _, kind := range g.searched() {
				req.kind = kind
				if !yield(g.masked(ctx, req, free, func(o *plan.Option) bool { return allowed(o) && can.option(o) })) {
					return
				}
			}
		}
		switch sh {
		case NoLayer:
			yield(plan.Named("none", layers))
		case AllLayers:
			yield(plan.Named("full", layers))
		case EveryK:
			named("every-", 2, layers)
		case FirstN:
			named("first-", 1, layers)
		case Uniform:
			named("segments-", 1, layers)
		case Modules, SameOps:
			for _, o := range menu.Options(p.Graph, layers/2) {
				if cached(&o) == (sh == SameOps) && len(o.Regions) > 0 && can.option(&o) {
					yield(&plan.Plan{Strategy: "optimal", Nodes: []plan.Node{{First: 0, Last: layers - 1, Option: &o}}}, nil)
				}
			}
		case LayerList:
			masked(func(o *plan.Option) bool { return o.Name == plan.Keep.Name || o.Name == plan.Full.Name })
		case ModuleMap:
			masked(func(o *plan.Option) bool { return !cached(o) })
		case AnyOption:
			masked(func(*plan.Option) bool { return true })
		case Segments, Nesting:
			if !p.Graph.Chain {
				return
			}
			most := 2
			if sh == Nesting {
				most = req.MaxForwards
			}
			yield(g.segmented(ctx, req, free, most))
		}
	}
}

func cached(o *plan.Option) bool {
	return slices.ContainsFunc(o.Regions, func(r plan.Region) bool { return len(r.Cache) > 0 })
}

var errNoMember = errors.New("no plan of this shape")

// masked solves the flat problem over a part of the menu of one kind. Where nothing fits it is the leanest plan.
func (g graphs) masked(ctx context.Context, req Request, free *Result, allowed func(*plan.Option) bool) (*plan.Plan, error) {
	req.Offload, req.HostMemory = false, 0
	sp, err := g.space(ctx, req, allowed)
	if err != nil {
		return nil, err
	}
	if len(sp.Options) == 0 {
		return nil, errNoMember
	}
	prob := sp.Problem()
	prob.Budget = int64(free.TensorBudget)
	sol, _, err := sp.fastestFlat(ctx, prob)
	var inf *solve.InfeasibleError
	if errors.As(err, &inf) {
		sol, _, err = sp.leanestFlat(ctx, prob)
	}
	if err != nil {
		return nil, err
	}
	return planOf(sp.Options, sol.Choice), nil
}

// segmented solves the nested problem with at most so many forwards of a layer. Where nothing fits it is the leanest plan.
func (g graphs) segmented(ctx context.Context, req Request, free *Result, most int) (*plan.Plan, error) {
	req.kind, req.Offload, req.HostMemory = "full", false, 0
	sp, err := g.space(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	found, err := sp.nestedPlan(ctx, sp.Program, int64(free.TensorBudget), most, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	if found == nil {
		req.MaxForwards = most
		if found, err = sp.leanestNested(ctx, sp.Program, req); err != nil {
			return nil, err
		}
	}
	return found.plan, nil
}
