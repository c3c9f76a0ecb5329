package strategy

import (
	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
)

// graphs are the programs that the plans of a model run on. Checkpointing can change the graph: users of adapters make
// the embedding's output require a gradient together with it. Plans that treat some layer are priced on one graph; the
// plan that treats none runs on that of a model without checkpointing. There it takes the least time of all plans: it has
// the same ops or fewer, and adds none.
type graphs struct {
	treated, plain *memory.Program
}

func graphsOf(p *memory.Program) (graphs, error) {
	s := *p.Graph.Spec
	if !s.DependsOnCheckpoint() {
		return graphs{p, p}, nil
	}
	s.Checkpoint = "none"
	plain, err := programOf(&s)
	return graphs{p, plain}, err
}

// differ is true if checkpointing changes the graph.
func (g graphs) differ() bool { return g.treated != g.plain }

// untreated is the plan that treats no layer, as the result of a search.
func (pr *pricing) untreated() (*Result, error) {
	tl, err := pr.judge(keepAll(), pr.sheet)
	if err != nil {
		return nil, err
	}
	sol := &Solution{Choice: make([]int, pr.treated.Graph.Layers), Peak: tl.Peak.Bytes, Status: Optimal, Closed: NothingAdded}
	return &Result{Class: "flat", Plan: keepAll(), Timeline: tl, Solution: sol, Untreated: true}, nil
}

// judge simulates a plan on the graph that it runs on.
func (g graphs) judge(pl *plan.Plan, sheet *gpu.Sheet) (*memory.Timeline, error) {
	if len(pl.Nodes) == 0 {
		return memory.Judge(g.plain, pl, sheet)
	}
	return memory.Judge(g.treated, pl, sheet)
}
