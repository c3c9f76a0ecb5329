package strategy

import (
	"context"
	"errors"
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/strategy/solve"
)

// leanest finds the plan of the request's class with the lowest peak, whatever the budget; of those the fastest.
// nested is the nested plan with the lowest peak, if it is known.
func (pr *pricing) leanest(ctx context.Context, p *memory.Program, prob *solve.Problem, req Request, nested *nestedPlan) (*Result, error) {
	var best *Result
	better := func(r *Result) {
		if best == nil || r.Timeline.Peak.Bytes < best.Timeline.Peak.Bytes {
			best = r
		}
	}
	if pr.differ() {
		none, err := pr.untreated()
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

// leanestFlat is the flat plan with the lowest simulated peak that searches find: below the peak by the rows, which may
// count too much, a search under a budget just below the last peak may find another.
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

// leastFlat is the flat plan with the lowest peak under a cap on host memory (0: none), what is shared charged once; of
// those the fastest that is found. Some plan keeps to the cap: a menu has options that put nothing into host memory.
func (pr *pricing) leastFlat(ctx context.Context, p *solve.Problem, limit int64) (*solve.Solution, error) {
	best, err := pr.leastOf(p, func(q *solve.Problem, kept [][]int) (*solve.Solution, error) {
		if limit == 0 {
			return solve.MinMemory(ctx, q)
		}
		return solve.MinMemoryWithin(ctx, pr.hosted(q, kept), limit)
	})
	if err != nil {
		return nil, err
	}
	q := *p
	q.Budget = best.Peak
	fastest, err := pr.solveWithin(ctx, &q, limit)
	var inf *solve.InfeasibleError
	if errors.As(err, &inf) { // that search was cut short
		_, best.Time = p.Evaluate(&solve.Solution{Choice: best.Choice, Head: best.Head})
		return best, nil
	}
	return fastest, err
}

// leastWithin is MinMemoryWithin with what is shared charged once.
func (pr *pricing) leastWithin(ctx context.Context, p *solve.Problem, cap int64) (*solve.Solution, error) {
	return pr.leastOf(p, func(q *solve.Problem, _ [][]int) (*solve.Solution, error) { return solve.MinMemoryWithin(ctx, q, cap) })
}

// hosted is a problem whose times are the bytes that choices put into host memory. kept are the options that its blocks
// still have, nil for all.
func (pr *pricing) hosted(p *solve.Problem, kept [][]int) *solve.Problem {
	q := *p
	q.Blocks = slices.Clone(p.Blocks)
	for i := range q.Blocks {
		b := &q.Blocks[i]
		b.Choices = slices.Clone(b.Choices)
		for k := range b.Choices {
			o := k
			if kept != nil {
				o = kept[i][k]
			}
			b.Choices[k].Time = pr.at(o, i).Host
		}
	}
	return &q
}
