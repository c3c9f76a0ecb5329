package solve

import (
	"context"
	"errors"
)

// SolveFlat returns the fastest plan in which every block is recomputed at most once, its peak as low as any plan's of
// that time.
//
// Method: the backward recurrence of search over the graph of newGraph, exact to the byte. A label is dropped if the least
// that the blocks before it can save does not fit on top of it, or if a Lagrangian bound on their time (Dual) shows that
// it cannot beat a known plan; that plan comes from the same recurrence with a few labels a node. Of equal neighbours, pairs
// of options that another pair makes superfluous are left out.
//
// The number of labels is not polynomial in theory; 126 different blocks with 7 options keep about a thousand a block.
// The optimum is over sums of modelled times on a fixed chain with these numbers: it says nothing about kernels that
// overlap, fragmentation, or plans that recompute a block twice (SolveNested).
//
// Where the search grows too large (ErrEffort), the best plan found has status Feasible and a bound. An *InfeasibleError
// names the smallest budget that a plan of the class fits; if ctx ends, the error is ctx's.
func SolveFlat(ctx context.Context, p *Problem) (*Solution, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	g := newGraph(p)
	least, err := minPeak(ctx, p, g)
	if err != nil {
		return nil, err
	}
	if least.Peak > p.Budget {
		return nil, &InfeasibleError{Budget: p.Budget, Needed: least.Peak}
	}
	return fastest(ctx, p, g, least)
}

// MinPeak returns the plan with the lowest peak, the fastest of those, whatever the problem's budget.
func MinPeak(ctx context.Context, p *Problem) (*Solution, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	least, err := minPeak(ctx, p, newGraph(p))
	if err != nil {
		return nil, err
	}
	q := *p
	q.Budget = least.Peak
	return fastest(ctx, &q, newGraph(&q), least)
}

// fastest is deepen's plan with its runs in order.
func fastest(ctx context.Context, p *Problem, g *graph, least *Solution) (*Solution, error) {
	best, err := deepen(ctx, p, g, least)
	if err != nil {
		return nil, err
	}
	return p.sortRuns(best), nil
}

// minPeak returns a plan with the lowest peak of all, without care for its time. A narrow run gives a peak that the full
// run must beat.
func minPeak(ctx context.Context, p *Problem, g *graph) (*Solution, error) {
	h := *g
	h.room = Largest
	s := newSearch(&h)
	s.timeless, s.width = true, narrowBeam
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	best := s.take(p)
	if s.stats.Widest < narrowBeam {
		return best, nil // nothing was left out
	}
	h.room, s.width = best.Peak-p.Base, 0
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s.take(p), nil
}

// deepen finds the fastest plan with runs of the recurrence, which is exact for plans of at most upper nanoseconds. The
// number of labels grows with the distance of upper from the dual bound, so upper starts just above that bound and the
// distance grows until a run finds a plan: this one is optimal. A narrow run comes first, for a known plan near the
// bound. least is a plan that fits.
func deepen(ctx context.Context, p *Problem, g *graph, least *Solution) (*Solution, error) {
	best := least
	all, err := dualSearch(ctx, g, least.Time)
	if err != nil {
		return nil, err
	}
	dual := g.dual(all[0])
	s := newSearch(g)
	s.all = all
	run := func(upper int64, width int) (*Solution, error) {
		s.upper, s.width = upper, width
		if err := s.run(ctx); err != nil {
			return nil, err
		}
		return s.take(p), nil
	}
	found, err := run(best.Time, narrowBeam)
	if err != nil {
		return nil, err
	}
	if found != nil && (found.Time < best.Time || found.Time == best.Time && found.Peak <= best.Peak) {
		best = found
	}
	if g.hasRun(longRun) {
		edges, _ := g.worthwhile(all, best.Time)
		g = g.sorted(edges, longRun)
		all = append(all, (&subgradient{g: g}).fresh(false)) // bounds of time alone: what a run has in excess costs that
		for i := range all {
			all[i] = all[i].on(g)
		}
		s = newSearch(g)
		s.all = all
	}
	for step := firstStep(dual.Bound, g.blocks+1); ; step *= 4 {
		upper := best.Time
		if dual.Bound < upper-step {
			upper = dual.Bound + step
		}
		found, err := run(upper, 0)
		if errors.Is(err, ErrEffort) {
			wide, err := run(best.Time, wideBeam)
			if err != nil {
				return nil, err
			}
			if wide != nil && wide.Time < best.Time {
				best = wide
			}
			best.Dual, best.Bound, best.Status, best.Closed = dual, dual.Bound, Feasible, "stopped"
			return best, nil
		}
		if err != nil {
			return nil, err
		}
		if found != nil { // of plans as fast as each other it needs least
			best = found
		}
		if found != nil || upper == best.Time {
			break
		}
	}
	best.Dual, best.Stats = dual, s.stats
	best.Status, best.Bound, best.Closed = Optimal, best.Time, "exact-search"
	if dual.Bound == best.Time {
		best.Closed = "dual-tight"
	}
	return best, nil
}

// firstStep is a guess of the distance between bound and optimum. The gap of a knapsack's relaxation falls with the square
// of the number of its items, as a share of the optimum (Lueker, On the average difference between the solutions to linear
// and integer knapsack problems, 1982); the factor is a choice: a guess too low costs a run, one too high labels.
func firstStep(bound int64, items int) int64 {
	const factor = 16
	return max(1, min(bound/1000, bound/int64(items)*factor/int64(items)))
}

// Labels a node that the search for a first plan keeps, and the one for a last plan where exact search is too much. Any
// number gives legal plans: a wider first beam costs time where it is not needed, a wider last one where nothing is proved.
const (
	narrowBeam = 32
	wideBeam   = 1024
)
