package strategy

import (
	"context"
	"errors"

	"ckptplan/internal/memory"
	"ckptplan/internal/strategy/solve"
)

// leanest finds the plan of the request's class with the lowest peak, whatever the budget; ties go to the fastest.
// nested is the nested plan with the lowest peak, if it is known.
func (pr *pricing) leanest(ctx context.Context, p *memory.Program, prob *solve.Problem, req Request, nested *nestedPlan) (*Result, error) {
	var best *Result
	better := func(r *Result) {
		if best == nil || r.Timeline.Peak.Bytes < best.Timeline.Peak.Bytes {
			best = r
		}
	}
	if pr.differ() {
		none, err := pr.untreated(ctx)
		if err != nil {
			return nil, err
		}
		better(none)
	}
	if req.Class != "nested" {
		sol, tl, err := pr.leanestFlat(ctx, prob, req)
		if err != nil {
			return nil, err
		}
		better(&Result{Class: "flat", Plan: planOf(pr.options, sol.Choice), Solution: sol, Problem: prob, Timeline: tl})
	}
	if req.Class != "flat" && (best == nil || best.Timeline.Peak.Bytes > pr.floor(p.Graph)) {
		if nested == nil {
			var err error
			if nested, err = pr.leanestNested(ctx, p, req); err != nil {
				return nil, err
			}
		}
		better(nested.result())
	}
	best.Leanest, best.Plan.Strategy = true, "leanest"
	return best, nil
}

// leanestFlat is the flat plan with the lowest simulated peak that searches find. Rows may overstate, so a search under a
// budget just below the last peak may find a plan with a lower one.
func (pr *pricing) leanestFlat(ctx context.Context, prob *solve.Problem, req Request) (*solve.Solution, *memory.Timeline, error) {
	q := *prob
	q.Budget = solve.Largest
	sol, tl, err := pr.leastJudged(ctx, &q, req, 0)
	if err != nil || pr.slack() == 0 && pr.slackBackward() == 0 {
		return sol, tl, err
	}
	for range maxLower {
		q.Budget = tl.Peak.Bytes - 1
		var inf *solve.InfeasibleError
		lower, ltl, err := pr.judged(ctx, &q, req)
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

// minPeak is the flat plan with the lowest peak under a cap on host memory (0: none); ties go to the fastest one found.
func (pr *pricing) minPeak(ctx context.Context, p *solve.Problem, limit int64) (*solve.Solution, error) {
	if limit == 0 {
		return solve.MinPeak(ctx, p)
	}
	q := *p
	var err error
	if q.Budget, err = pr.minPeakWithin(ctx, p, limit); err != nil {
		return nil, err
	}
	return pr.solveWithin(ctx, &q, limit)
}
