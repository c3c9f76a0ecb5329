package strategy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
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

// Target is a trainer with the shapes of plan that its own knobs run exactly.
type Target struct {
	Name, Title string
	Shapes      []Shape
	// Source is where the knobs are documented.
	Source string
}

// Targets are the trainers, by name. Sources: each project's documentation and configuration classes as of 2026.
var Targets = []Target{
	{"accelerate", "Hugging Face accelerate", []Shape{NoLayer, AllLayers}, "FullyShardedDataParallelPlugin.activation_checkpointing"},
	{"axolotl", "axolotl", []Shape{NoLayer, AllLayers}, "gradient_checkpointing"},
	{"checkpoint-wrapper", "torch checkpoint_wrapper", []Shape{NoLayer, AllLayers, EveryK, FirstN, LayerList, Modules, ModuleMap, SameOps, AnyOption}, "torch.distributed.algorithms._checkpoint.checkpoint_wrapper, check_fn and context_fn"},
	{"colossalai", "ColossalAI", []Shape{NoLayer, AllLayers, FirstN}, "PipelineGradientCheckpointConfig.num_ckpt_layers_per_stage"},
	{"deepspeed", "DeepSpeed PipelineModule", []Shape{NoLayer, AllLayers, Uniform}, "PipelineModule.activation_checkpoint_interval"},
	{"hf-layers", "Hugging Face layer flag", []Shape{NoLayer, AllLayers, EveryK, FirstN, LayerList}, "GradientCheckpointingLayer.gradient_checkpointing, set layer by layer"},
	{"hf-trainer", "Hugging Face Trainer", []Shape{NoLayer, AllLayers, EveryK}, "TrainingArguments.gradient_checkpointing, gradient_checkpointing_kwargs.every_n_layers"},
	{"lightning", "Lightning FSDPStrategy", []Shape{NoLayer, AllLayers, Modules, LayerList}, "FSDPStrategy.activation_checkpointing_policy"},
	{"llama-factory", "LLaMA-Factory", []Shape{NoLayer, AllLayers}, "disable_gradient_checkpointing"},
	{"llm-foundry", "llm-foundry", []Shape{NoLayer, AllLayers, EveryK, FirstN, LayerList, Modules, ModuleMap}, "activation_checkpointing_target"},
	{"megatron", "Megatron-LM", []Shape{NoLayer, AllLayers, FirstN, Uniform, Modules}, "recompute_granularity, recompute_method, recompute_num_layers, recompute_modules"},
	{"nanotron", "nanotron", []Shape{NoLayer, AllLayers}, "recompute_layer"},
	{"olmo-core", "OLMo-core", []Shape{NoLayer, AllLayers, EveryK, Modules}, "TransformerActivationCheckpointingMode"},
	{"primus", "AMD Primus", []Shape{NoLayer, AllLayers, FirstN, Uniform, LayerList, Modules}, "recompute_layer_ids and Megatron's flags"},
	{"pytorch", "torch.utils.checkpoint", []Shape{NoLayer, AllLayers, EveryK, FirstN, Uniform, LayerList, Modules, ModuleMap, SameOps, AnyOption, Segments, Nesting}, "checkpoint(use_reentrant=False), create_selective_checkpoint_contexts"},
	{"torchtitan", "torchtitan", []Shape{NoLayer, AllLayers}, "activation_checkpoint.mode none and full"},
	{"torchtune", "torchtune", []Shape{NoLayer, AllLayers, EveryK, LayerList}, "set_activation_checkpointing, ac_mode and ac_option"},
	{"unsloth", "unsloth", []Shape{NoLayer, AllLayers, Uniform}, "prepare_n_gradient_checkpoints"},
}

// FindTarget looks a trainer up; underscores and hyphens are the same.
func FindTarget(name string) (*Target, error) {
	want := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	var names []string
	for i := range Targets {
		if Targets[i].Name == want {
			return &Targets[i], nil
		}
		names = append(names, Targets[i].Name)
	}
	return nil, &UnknownTargetError{Name: name, Known: names}
}

// UnknownTargetError is returned for a trainer that is not in the table.
type UnknownTargetError struct {
	Name  string
	Known []string
}

func (e *UnknownTargetError) Error() string {
	return fmt.Sprintf("unknown target %q (known: %s)", e.Name, strings.Join(e.Known, ", "))
}

// Restricted is the fastest plan that a target can run, beside the unrestricted one.
type Restricted struct {
	*Result
	Target *Target
	// Shape is the family the plan is of.
	Shape Shape
	// Free is the plan without the restriction, the restricted one itself where the search without a target, which is of
	// one class, has none.
	Free *Result
}

// Price is the restriction's price: the share by which the step is longer than without it.
func (r *Restricted) Price() float64 {
	return float64(r.Timeline.Times.Step())/float64(r.Free.Timeline.Times.Step()) - 1
}

// OptimizeFor finds the fastest plan under the budget among those a target can run. Families with few members are
// tried one by one in the simulator; layer lists and module maps are flat problems with a mask on the menu. The error
// that none fits names the leanest plan of the target.
func OptimizeFor(ctx context.Context, p *memory.Program, req Request, t *Target) (*Restricted, error) {
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
	out := &Restricted{Target: t, Free: free}
	best := *free
	best.Solution, best.Nested, best.Plan, best.Timeline, best.Untreated = nil, nil, nil, nil, false
	var leanest *memory.Timeline
	var leanestPlan *plan.Plan
	try := func(sh Shape, pl *plan.Plan, err error) error {
		if err != nil {
			return nil // the model has no such part or too few layers
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		tl, err := g.judge(pl, req.Sheet)
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
	for _, sh := range t.Shapes {
		for pl, err := range g.membersOf(ctx, req, free, sh) {
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
		need := unit.Bytes(leanest.Peak.Bytes)
		e.Smallest = need + req.Reserve
		if req.Reserve < 0 {
			e.Smallest = need + defaultReserve(req, need)
		}
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
func (g graphs) membersOf(ctx context.Context, req Request, free *Result, sh Shape) func(func(*plan.Plan, error) bool) {
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
		masked := func(allowed func(plan.Option) bool) {
			for _, kind := range g.searched() {
				req.kind = kind
				if !yield(g.masked(ctx, req, free, allowed)) {
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
			for _, o := range Options(p.Graph, layers/2) {
				if cached(o) == (sh == SameOps) && len(o.Regions) > 0 {
					yield(&plan.Plan{Strategy: "optimal", Nodes: []plan.Node{{First: 0, Last: layers - 1, Option: &o}}}, nil)
				}
			}
		case LayerList:
			masked(func(o plan.Option) bool { return o.Name == plan.Keep.Name || o.Name == plan.Full.Name })
		case ModuleMap:
			masked(func(o plan.Option) bool { return !cached(o) })
		case AnyOption:
			masked(func(plan.Option) bool { return true })
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

func cached(o plan.Option) bool {
	return slices.ContainsFunc(o.Regions, func(r plan.Region) bool { return len(r.Cache) > 0 })
}

var errNoMember = errors.New("no plan of this shape")

// masked solves the flat problem over a part of the menu of one kind. Where nothing fits it is the leanest plan.
func (g graphs) masked(ctx context.Context, req Request, free *Result, allowed func(plan.Option) bool) (*plan.Plan, error) {
	p := g.of(req.kind)
	pr, err := g.price(p, req.Sheet, req.allows)
	if err != nil {
		return nil, err
	}
	pr.prune(func(k int) bool { return allowed(pr.options[k]) })
	if len(pr.options) == 0 {
		return nil, errNoMember
	}
	req.HostMemory = 0 // none of these plans puts anything there
	prob := pr.problem(p.Graph)
	prob.Budget = int64(free.TensorBudget)
	sol, _, err := pr.judged(ctx, prob, req)
	var inf *solve.InfeasibleError
	if errors.As(err, &inf) {
		sol, _, err = pr.leanestFlat(ctx, prob, req)
	}
	if err != nil {
		return nil, err
	}
	return planOf(pr.options, sol.Choice), nil
}

// segmented solves the nested problem with at most so many forwards of a layer. Where nothing fits it is the leanest plan.
func (g graphs) segmented(ctx context.Context, req Request, free *Result, most int) (*plan.Plan, error) {
	p := g.of("full")
	pr, err := g.price(p, req.Sheet, nil)
	if err != nil {
		return nil, err
	}
	pr.prune(nil)
	found, err := pr.nestedPlan(ctx, p, int64(free.TensorBudget), most, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	if found == nil {
		req.MaxForwards = most
		if found, err = pr.leanestNested(ctx, p, req); err != nil {
			return nil, err
		}
	}
	return found.plan, nil
}
