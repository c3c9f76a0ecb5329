package strategy

import (
	"context"
	"errors"

	"ckptplan/internal/memory"
	"ckptplan/internal/strategy/solve"
)

// slackSteps is the number of steps in which rows are tightened from optimistic to pessimistic.
const slackSteps = 8

// fastestFlat solves the flat problem and simulates its answer; the simulator decides. It solves with optimistic rows
// first: if the simulator accepts the answer, it is optimal. Otherwise it tightens the rows step by step, and then lowers
// the budget by the excess that the simulator finds; the answer is then only feasible. Where rows leave no plan, the one
// with the lowest peak may still be within the budget.
func (sp *space) fastestFlat(ctx context.Context, prob *solve.Problem) (*solve.Solution, *memory.Timeline, error) {
	forward, backward := sp.Slack()
	steps := int64(slackSteps)
	if forward == 0 && backward == 0 {
		steps = 0
	}
	bound := int64(-1) // of the first search
	q := *prob
	for n := steps; ; n = max(0, n-1) {
		sol, err := sp.solveCapped(ctx, q.Lowered(forward*n/slackSteps, backward*n/slackSteps))
		var inf *solve.InfeasibleError
		if errors.As(err, &inf) {
			sol, tl, err := sp.lowestByRows(ctx, prob)
			if err == nil && tl.Peak.Bytes > prob.Budget {
				err = &solve.InfeasibleError{Budget: prob.Budget, Needed: tl.Peak.Bytes}
			}
			if err != nil {
				return nil, nil, err
			}
			return sol.ClosedBy(max(0, bound)), tl, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if sp.Entangled {
			sol.ClosedBy(0)
		}
		if bound < 0 {
			bound = sol.Bound
		} else {
			sol.ClosedBy(bound)
		}
		tl, err := sp.judge(ctx, planOf(sp.Options, sol.Choice), sp.Sheet)
		if err != nil {
			return nil, nil, err
		}
		over := tl.Peak.Bytes - prob.Budget
		switch {
		case over > 0 && n == 0:
			q.Budget -= over
		case over <= 0:
			if n > 0 {
				sol.Peak = tl.Peak.Bytes
			}
			return sol, tl, nil
		}
	}
}

// lowestByRows is the flat plan with the lowest peak by the rows, whatever the budget, with its simulated peak. It is
// looked for once.
func (sp *space) lowestByRows(ctx context.Context, prob *solve.Problem) (*solve.Solution, *memory.Timeline, error) {
	if sp.lowest == nil {
		sol, err := sp.minPeak(ctx, prob)
		if err != nil {
			return nil, nil, err
		}
		tl, err := sp.judge(ctx, planOf(sp.Options, sol.Choice), sp.Sheet)
		if err != nil {
			return nil, nil, err
		}
		sol.Peak = tl.Peak.Bytes
		sp.lowest, sp.lowestTimeline = sol, tl
	}
	sol := *sp.lowest
	return &sol, sp.lowestTimeline, nil
}

// leanestFlat is the flat plan with the lowest simulated peak that searches find. Rows may overstate, so a search under a
// budget just below the last peak may find a plan with a lower one.
func (sp *space) leanestFlat(ctx context.Context, prob *solve.Problem) (*solve.Solution, *memory.Timeline, error) {
	sol, tl, err := sp.lowestByRows(ctx, prob)
	if err != nil {
		return nil, nil, err
	}
	sol.ClosedBy(0)
	if forward, backward := sp.Slack(); forward == 0 && backward == 0 {
		return sol, tl, nil
	}
	q := *prob
	for range maxLower {
		q.Budget = tl.Peak.Bytes - 1
		var inf *solve.InfeasibleError
		lower, ltl, err := sp.fastestFlat(ctx, &q)
		switch {
		case errors.As(err, &inf):
			return sol, tl, nil
		case err != nil:
			return nil, nil, err
		}
		sol, tl = lower, ltl
	}
	return sol, tl, nil
}
