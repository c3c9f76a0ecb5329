package strategy

import (
	"errors"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/plan"
)

// graphs are the programs that the plans of a model run on, by kind of plan (model.Spec.CheckpointKinds). Checkpointing can
// change the graph: users of adapters make the embedding's output require a gradient together with it, and T5's layers
// under one checkpoint each do so with a bias. The plan that treats none runs on the graph of a model without
// checkpointing. There it takes the least time of all plans: it has the same ops or fewer, and adds none.
type graphs map[string]*memory.Program

// graphsOf are the graphs of the model of a program, which is one of them.
func graphsOf(p *memory.Program) (graphs, error) {
	out := graphs{}
	spec := model.SpecOf(p.Graph)
	kinds := spec.CheckpointKinds()
	for _, kind := range kinds {
		s := *spec
		if len(kinds) == 1 || s.Checkpoint == kind {
			out[kind] = p
			continue
		}
		s.Checkpoint = kind
		var err error
		if out[kind], err = programOf(&s); err != nil {
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
func (pr *pricing) untreated() (*Result, error) {
	tl, err := pr.judge(keepAll(), pr.sheet)
	if err != nil {
		return nil, err
	}
	sol := &Solution{Choice: make([]int, len(pr.same)), Peak: tl.Peak.Bytes, Status: Optimal, Closed: NothingAdded}
	return &Result{Class: "flat", Plan: keepAll(), Timeline: tl, Solution: sol, Untreated: true}, nil
}

// judge simulates a plan on the graph that it runs on.
func (g graphs) judge(pl *plan.Plan, sheet *gpu.Sheet) (*memory.Timeline, error) {
	return memory.Judge(g.of(pl.Kind()), pl, sheet)
}

// fastest searches the plans of every kind on the graph that they run on. search is the search among those of a kind.
func (g graphs) fastest(req Request, search func(Request) (*Result, error)) (*Result, error) {
	var best *Result
	var none *NoPlanError
	least := int64(-1) // a step that no plan of the searches is below
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
		res.kind = kind
		if res.Untreated {
			return res, nil // nothing is faster than recomputing nothing
		}
		if least < 0 || res.least < least {
			least = res.least
		}
		if best == nil || res.Timeline.Times.Step() < best.Timeline.Times.Step() {
			best = res
		}
	}
	if best == nil {
		return nil, none
	}
	if g.of(best.Plan.Kind()) != g.of(best.kind) { // found by rows of another graph, on which it takes more
		best.Solution.closedBy(0)
	} else if by := best.least - least; by > 0 { // plans of another kind may take less than what is proved of this one's
		m := micro(best.Timeline)
		best.Solution.closedBy(max(0, best.Solution.Bound-(by+m-1)/m))
	}
	return best, nil
}

// micro is the number of micro batches of a step.
func micro(tl *memory.Timeline) int64 { return int64(tl.Graph().Step.MicroBatches) }
