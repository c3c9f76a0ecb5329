package strategy

import (
	"context"

	"ckptplan/internal/memory"
	"ckptplan/internal/strategy/solve"
)

// Leanest finds the plan of a class with the lowest peak.
func Leanest(ctx context.Context, p *memory.Program, req Request) (*Result, error) {
	g, err := graphsOf(p)
	if err != nil {
		return nil, err
	}
	if err := req.fitClass(g); err != nil {
		return nil, err
	}
	var best *Result
	for _, kind := range g.searched() {
		req.kind = kind
		res, err := g.leanest(ctx, req)
		if err != nil {
			return nil, err
		}
		if best == nil || res.leaner(best) {
			best = res
		}
	}
	best.Named, err = g.baselines(ctx, req)
	return best, err
}

// leaner is true if a plan has a lower peak than another, or as low a one in less time.
func (r *Result) leaner(than *Result) bool {
	a, b := r.Timeline, than.Timeline
	return a.Peak.Bytes < b.Peak.Bytes || a.Peak.Bytes == b.Peak.Bytes && a.Times.Step() < b.Times.Step()
}

// leanest is Leanest among the plans of one kind.
func (g graphs) leanest(ctx context.Context, req Request) (*Result, error) {
	sp, err := g.space(ctx, req, nil)
	if err != nil {
		return nil, err
	}
	return sp.leanest(ctx, sp.Problem(), req, nil)
}

// leanest finds the plan of the request's class with the lowest peak, whatever the budget; ties go to the fastest.
// nested is the nested plan with the lowest peak, if it is known.
func (sp *space) leanest(ctx context.Context, prob *solve.Problem, req Request, nested *nestedPlan) (*Result, error) {
	var best *Result
	better := func(r *Result) {
		if best == nil || r.Timeline.Peak.Bytes < best.Timeline.Peak.Bytes {
			best = r
		}
	}
	if sp.differ() {
		none, err := sp.untreated(ctx)
		if err != nil {
			return nil, err
		}
		better(none)
	}
	if req.Class != "nested" {
		sol, tl, err := sp.leanestFlat(ctx, prob)
		if err != nil {
			return nil, err
		}
		better(&Result{Class: "flat", Plan: planOf(sp.Options, sol.Choice), Solution: sol, Problem: prob, Timeline: tl})
	}
	if req.Class != "flat" && (best == nil || best.Timeline.Peak.Bytes > sp.Floor()) {
		if nested == nil {
			var err error
			if nested, err = sp.leanestNested(ctx, sp.Program, req); err != nil {
				return nil, err
			}
		}
		better(nested.result())
	}
	best.Leanest, best.Plan.Strategy = true, "leanest"
	return best, nil
}
