package strategy

import (
	"context"
	"errors"
	"math"

	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/solve"
)

// beliefSlack: the frontier is computed up to an eighth above the budget, since the chain's estimate can exceed the
// simulated peak by that much (one needlessly held input per layer).
const beliefSlack = 8

// nestedPlan is a plan of a chain's class, its simulation, and what the chain believes of it.
type nestedPlan struct {
	plan     *plan.Plan
	timeline *memory.Timeline
	solution *solve.NestedSolution
	model    *nestedModel
}

// result is the plan as one of a search.
func (n *nestedPlan) result() *Result {
	return &Result{Class: "nested", Plan: n.plan, Timeline: n.timeline, Nested: n.solution, nested: n.model}
}

// nestedPlan is the fastest plan that the simulator finds within the budget, among the plans of the chain's frontier and the
// named ones; nil if there is none.
//
// extra is the time that plans may add to a step without recompute, in nanoseconds of a micro-batch: only faster plans are
// searched.
func (pr *space) nestedPlan(ctx context.Context, p *memory.Program, budget int64, maxForwards int, extra int64) (*nestedPlan, error) {
	m, err := pr.nestedModel(p)
	if err != nil {
		return nil, err
	}
	m.chain.MaxForwards = maxForwards
	return m.within(ctx, pr, p, budget, extra)
}

// within is nestedPlan by a chain.
func (m *nestedModel) within(ctx context.Context, pr *space, p *memory.Program, budget, extra int64) (*nestedPlan, error) {
	if budget < max(1, m.chain.Floor) {
		return nil, nil
	}
	m.chain.Budget = budget + budget/beliefSlack
	slowest := int64(math.MaxInt64)
	if extra < math.MaxInt64 {
		slowest = m.kept() + extra
	}
	front, err := solve.NestedFrontierWithin(ctx, m.chain, slowest)
	tooLong := errors.Is(err, solve.ErrEffort)
	var inf *solve.InfeasibleError
	var best *nestedPlan
	switch {
	case err == nil:
		if best, err = m.search(ctx, pr, front, budget); err != nil {
			return nil, err
		}
	case !errors.As(err, &inf) && !tooLong:
		return nil, err
	}
	known, err := m.family(ctx)
	if err != nil {
		return nil, err
	}
	if m.chain.MaxForwards != 1 && extra == math.MaxInt64 { // with a limit, a flat plan is known that none of these beats
		s, err := m.flatOf(ctx, pr, p, budget)
		if err != nil {
			return nil, err
		}
		if s != nil {
			known = append(known, s)
		}
	}
	if best, err = m.faster(ctx, pr, known, best, budget); err != nil {
		return nil, err
	}
	switch {
	case best == nil:
		return m.named(ctx, pr, budget)
	case tooLong:
		return best.unproved(), nil
	}
	return best, best.prove(ctx, front, budget)
}

// prove finds how far the plan's time is from the least under a budget, or under the plan's own believed peak where that is
// more. front is the chain's frontier up to its budget, nil if that is not known.
func (n *nestedPlan) prove(ctx context.Context, front *solve.NestedTradeOff, budget int64) error {
	limit := max(budget, n.solution.Peak)
	if front == nil || limit > n.model.chain.Budget {
		c := *n.model.chain
		c.Budget = limit
		var err error
		if front, err = solve.NestedFrontierWithin(ctx, &c, n.solution.Time); err != nil {
			return err
		}
	}
	n.solution.BoundBy(front, limit)
	return nil
}

// unproved is the plan of a chain whose search grew too large: all that is known is that no plan takes less than a step
// without recompute. It has no limit, since its rows prove nothing.
func (n *nestedPlan) unproved() *nestedPlan {
	n.solution.Bound, n.solution.Limit, n.solution.Status = n.model.kept(), 0, solve.Feasible
	return n
}

// leanestNested is the nested plan with the lowest peak that searches find: the chain's leanest, those known by name,
// and what a search under a budget just below the last one still finds.
func (pr *space) leanestNested(ctx context.Context, p *memory.Program, req Request) (*nestedPlan, error) {
	m, err := pr.nestedModel(p)
	if err != nil {
		return nil, err
	}
	m.chain.MaxForwards = req.MaxForwards
	var best *nestedPlan
	look := func(s *solve.NestedSolution) error {
		found, err := m.judged(ctx, pr, s)
		if err == nil && (best == nil || found.below(best)) {
			best = found
		}
		return err
	}
	if req.MaxForwards != 1 {
		s, err := m.flatOf(ctx, pr, p, 0)
		if err != nil {
			return nil, err
		}
		if s != nil {
			if err := look(s); err != nil {
				return nil, err
			}
		}
	}
	if best != nil && best.timeline.Peak.Bytes <= m.chain.Floor {
		return best, nil
	}
	if m.chain.Budget, err = solve.MinNestedPeak(ctx, m.chain); err != nil {
		return nil, err
	}
	sol, err := solve.SolveNested(ctx, m.chain)
	tooLong := errors.Is(err, solve.ErrEffort)
	if err != nil && !tooLong {
		return nil, err
	}
	known, err := m.family(ctx)
	if err != nil {
		return nil, err
	}
	known = lowest(known)
	if !tooLong {
		known = append(known, sol)
	}
	for _, s := range known {
		if err := look(s); err != nil {
			return nil, err
		}
	}
	for range maxLower {
		if tooLong || best.timeline.Peak.Bytes <= m.chain.Floor {
			break
		}
		lower, err := m.within(ctx, pr, p, best.timeline.Peak.Bytes-1, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		if lower == nil {
			break
		}
		best = lower
	}
	return best, nil
}

// below is true if a plan has a lower peak, or the same in less time.
func (n *nestedPlan) below(o *nestedPlan) bool {
	a, b := n.timeline, o.timeline
	return a.Peak.Bytes < b.Peak.Bytes || a.Peak.Bytes == b.Peak.Bytes && a.Times.Step() < b.Times.Step()
}

// maxLower bounds the searches for a peak that is lower still. Each lowers it; as a rule the first finds nothing.
const maxLower = 64

// search simulates plans of the frontier.
func (m *nestedModel) search(ctx context.Context, pr *space, front *solve.NestedTradeOff, budget int64) (*nestedPlan, error) {
	// believed peaks are upper bounds that rise along the frontier: the first that fits for sure, and the faster ones
	// after it until the simulator refuses several in a row
	at := 0
	for at+1 < len(front.Points) && front.Points[at+1].Peak <= budget {
		at++
	}
	const patience = 8
	var best *nestedPlan
	for i, refused := at, 0; i < len(front.Points) && refused < patience; i++ {
		found, err := m.judged(ctx, pr, front.Solution(i))
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
		found, err := m.judged(ctx, pr, front.Solution(i))
		if err != nil {
			return nil, err
		}
		if found.timeline.Peak.Bytes <= budget {
			best = found
		}
	}
	return best, nil
}
