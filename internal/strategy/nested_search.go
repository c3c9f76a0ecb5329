package strategy

import (
	"context"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
)

// beliefSlack: the frontier is computed up to an eighth above the budget, since the chain believes in up to that much
// more than the simulator finds (a layer input a layer, held for nothing).
const beliefSlack = 8

// nestedPlan is a plan found on a chain's frontier, its simulation, and what the chain believed of it.
type nestedPlan struct {
	plan     *plan.Plan
	timeline *memory.Timeline
	solution *NestedSolution
	model    *nestedModel
}

// nestedPlan is the fastest plan of the chain's frontier that the simulator finds within the budget; nil if there is none.
func (pr *pricing) nestedPlan(ctx context.Context, p *memory.Program, sheet *gpu.Sheet, budget int64, maxForwards int) (*nestedPlan, error) {
	m, err := pr.nestedModel(p)
	if err != nil {
		return nil, err
	}
	m.chain.MaxForwards = maxForwards
	m.chain.Budget = budget + budget/beliefSlack
	front, err := NestedFrontier(ctx, m.chain)
	if err != nil {
		return nil, err
	}
	best, err := m.search(p, sheet, front, budget)
	if best != nil {
		best.solution.bound(front, budget)
	}
	return best, err
}

// leanestNested is the fastest of the nested plans with the lowest peak by the chain's prices.
func (pr *pricing) leanestNested(ctx context.Context, p *memory.Program, req Request) (*nestedPlan, error) {
	m, err := pr.nestedModel(p)
	if err != nil {
		return nil, err
	}
	m.chain.MaxForwards = req.MaxForwards
	if m.chain.Budget, err = MinNestedMemory(ctx, m.chain); err != nil {
		return nil, err
	}
	sol, err := SolveNested(ctx, m.chain)
	if err != nil {
		return nil, err
	}
	pl := m.plan(sol.Nodes)
	tl, err := memory.Judge(p, pl, req.Sheet)
	return &nestedPlan{pl, tl, sol, m}, err
}

// bound gives the solution the limit that its time is best under: the budget, or its own believed peak where that is
// more, and the least time of the frontier under that limit.
func (s *NestedSolution) bound(front *NestedTradeOff, budget int64) {
	s.Limit = max(budget, s.Peak)
	for _, p := range front.Points {
		if p.Peak <= s.Limit {
			s.Bound = p.Time
		}
	}
	if s.Bound < s.Time {
		s.Status = Feasible
	}
}

// search simulates plans of the frontier.
func (m *nestedModel) search(p *memory.Program, sheet *gpu.Sheet, front *NestedTradeOff, budget int64) (*nestedPlan, error) {
	judge := func(i int) (*nestedPlan, error) {
		sol := front.Solution(i)
		pl := m.plan(sol.Nodes)
		tl, err := memory.Judge(p, pl, sheet)
		return &nestedPlan{pl, tl, sol, m}, err
	}
	// believed peaks are upper bounds that rise along the frontier: the first that fits for sure, and the faster ones
	// after it until the simulator refuses several in a row
	at := 0
	for at+1 < len(front.Points) && front.Points[at+1].Peak <= budget {
		at++
	}
	const patience = 8
	var best *nestedPlan
	for i, refused := at, 0; i < len(front.Points) && refused < patience; i++ {
		found, err := judge(i)
		if err != nil {
			return nil, err
		}
		if found.timeline.Peak.Bytes > budget {
			refused++
			continue
		}
		refused = 0
		if best == nil || found.timeline.Times.Step() < best.timeline.Times.Step() {
			best = found
		}
	}
	// the chain may also believe too little: then the fastest point below that the simulator passes
	for i := at - 1; i >= 0 && best == nil; i-- {
		found, err := judge(i)
		if err != nil {
			return nil, err
		}
		if found.timeline.Peak.Bytes <= budget {
			best = found
		}
	}
	return best, nil
}
