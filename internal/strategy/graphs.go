package strategy

import (
	"context"
	"errors"
	"fmt"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/solve"
)

// graphs are the programs that the plans of a model run on (memory.Programs), by kind of plan. The plan that treats no layer
// runs on the graph of a model without checkpointing, where it takes the least time of all plans: that graph has the same
// ops or fewer, and the plan adds none.
type graphs map[string]*memory.Program

// maxLayers is the most layers for which plans are searched: labels are kept for every layer, so that memory and time grow
// with more than their number. No model that is trained has a tenth of it.
const maxLayers = 10_000

// Searchable is an error for a model with more layers than plans are searched for.
func Searchable(s *spec.Spec) error {
	if n := s.L + s.DecoderL; n > maxLayers {
		return fmt.Errorf("plans are searched for models of at most %d layers: this one has %d", maxLayers, n)
	}
	return nil
}

// graphsOf are the graphs of the model of a program, which is one of them.
func graphsOf(p *memory.Program) (graphs, error) {
	if err := Searchable(build.SpecOf(p.Graph)); err != nil {
		return nil, err
	}
	out := graphs{}
	for _, kind := range build.SpecOf(p.Graph).CheckpointKinds() {
		var err error
		if out[kind], err = p.Kin().Kind(kind); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// of is the program that plans of a kind run on.
func (g graphs) of(kind string) *memory.Program {
	for _, k := range []string{kind, "full", "none"} {
		if p := g[k]; p != nil {
			return p
		}
	}
	return nil
}

// searched are the kinds whose plans are searched apart; the last, full, is any plan.
func (g graphs) searched() []string {
	if g["selective"] != nil {
		return []string{"selective", "full"}
	}
	return []string{"full"}
}

// differ is true if checkpointing changes the graph.
func (g graphs) differ() bool { return len(g) > 1 }

// untreated is the plan that treats no layer, as the result of a search.
func (sp *space) untreated(ctx context.Context) (*Result, error) {
	tl, err := sp.judge(ctx, keepAll(), sp.Sheet)
	if err != nil {
		return nil, err
	}
	sol := &solve.Solution{Choice: make([]int, len(sp.Same)), Peak: tl.Peak.Bytes, Status: solve.Optimal, Closed: NothingAdded}
	return &Result{Class: "flat", Plan: keepAll(), Timeline: tl, Solution: sol, Untreated: true}, nil
}

// judge simulates a plan on the graph that it runs on, unless the context has ended.
func (g graphs) judge(ctx context.Context, pl *plan.Plan, sheet *gpu.Sheet) (*memory.Timeline, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return memory.Judge(g.of(pl.Kind()), pl, sheet)
}

// fastest searches the plans of every kind on the graph that they run on. search is the search among those of a kind.
func (g graphs) fastest(req Request, search func(Request) (*Result, error)) (*Result, error) {
	var best *Result
	var none *NoPlanError
	bound := int64(-1) // a bound below which no searched plan's step lies
	for _, kind := range g.searched() {
		req.kind = kind
		res, err := search(req)
		var no *NoPlanError
		switch {
		case errors.As(err, &no):
			if none == nil || no.Smallest <= none.Smallest {
				none = no
			}
			continue
		case err != nil:
			return nil, err
		}
		if res.Untreated {
			return res, nil // no plan is faster than one that recomputes nothing
		}
		if bound < 0 || res.bound < bound {
			bound = res.bound
		}
		if best == nil || res.Timeline.Times.Step() < best.Timeline.Times.Step() {
			best = res
		}
	}
	if best == nil {
		return nil, none
	}
	if g.of(best.Plan.Kind()) != best.space.Program { // found by rows of another graph, on which it takes more
		best.Solution.ClosedBy(0)
	} else if by := best.bound - bound; by > 0 { // plans of another kind may take less than what is proved of this one's
		m := micro(best.Timeline)
		best.Solution.ClosedBy(max(0, best.Solution.Bound-(by+m-1)/m))
	}
	return best, nil
}

// micro is the number of micro batches of a step.
func micro(tl *memory.Timeline) int64 { return int64(tl.Graph().Step.MicroBatches) }
