package strategy

import (
	"context"
	"errors"
	"slices"

	"ckptplan/internal/strategy/solve"
)

// solve is SolveFlat with what is shared charged once, to its first keeper. The problem without a charge, in which keepers
// keep for nothing, is a relaxation, and so is every problem in which the first keepers of some units are fixed and the
// others keep for nothing: solve branches over the first keepers, unit by unit, as long as a relaxation could be faster than
// the best plan found.
func (pr *pricing) solve(ctx context.Context, p *solve.Problem) (*solve.Solution, error) {
	free, err := solve.SolveFlat(ctx, p)
	if len(pr.shared) == 0 || err != nil {
		return free, err
	}
	b := &branching{pr: pr, p: p}
	b.relax = func(q *solve.Problem, _ [][]int) (*solve.Solution, error) {
		if b.best == nil {
			return solve.SolveFlat(ctx, q)
		}
		return solve.SolveFlatWithin(ctx, q, b.best.Time-1)
	}
	b.settles = func(s *solve.Solution, peak int64) bool {
		if peak > p.Budget {
			return false
		}
		b.best, s.Peak = s, peak
		return true
	}
	if peak := pr.believe(p, free.Choice); peak <= p.Budget {
		free.Peak = peak
		return free, nil
	}
	b.start(ctx) // a plan with everything charged, to compare with
	if b.best == nil || b.best.Time > free.Time {
		if err := b.below(nil); err != nil {
			return nil, err
		}
	}
	if b.best == nil {
		least, err := pr.leastOf(p, func(q *solve.Problem, _ [][]int) (*solve.Solution, error) { return solve.MinMemory(ctx, q) })
		if err != nil {
			return nil, err
		}
		return nil, &solve.InfeasibleError{Budget: p.Budget, Needed: least.Peak}
	}
	out := *b.best
	out.Dual = free.Dual
	switch {
	case b.stopped || free.Status != solve.Optimal:
		out.Status, out.Closed, out.Bound = solve.Feasible, "stopped", free.Bound
	case out.Time == free.Dual.Bound:
		out.Status, out.Closed, out.Bound = solve.Optimal, "dual-tight", out.Time
	default:
		out.Status, out.Closed, out.Bound = solve.Optimal, "exact-search", out.Time
	}
	return &out, nil
}

// leastOf is the plan with the lowest peak, what is shared charged once, where relax finds it for a problem with some units
// charged; kept are the options that the problem's blocks still have, nil for all.
func (pr *pricing) leastOf(p *solve.Problem, relax func(q *solve.Problem, kept [][]int) (*solve.Solution, error)) (*solve.Solution, error) {
	free, err := relax(p, nil)
	if len(pr.shared) == 0 || err != nil {
		return free, err
	}
	b := &branching{pr: pr, p: p}
	b.relax = func(q *solve.Problem, kept [][]int) (*solve.Solution, error) {
		s, err := relax(q, kept)
		var slow *solve.TooSlowError
		if errors.As(err, &slow) || err == nil && s.Peak >= b.best.Peak {
			return nil, nil
		}
		return s, err
	}
	b.settles = func(s *solve.Solution, peak int64) bool {
		relaxed := s.Peak
		if s.Peak = peak; b.best == nil || peak < b.best.Peak {
			b.best = s
		}
		return peak <= relaxed
	}
	if !b.settles(free, pr.believe(p, free.Choice)) {
		if err := b.below(nil); err != nil {
			return nil, err
		}
	}
	if b.stopped {
		b.best.Status = solve.Feasible
	}
	return b.best, nil
}

// branching is a search over the first keepers of the shared units.
type branching struct {
	pr *pricing
	p  *solve.Problem
	// relax solves a problem with some units charged; nil: nothing better than best can come of it.
	relax func(q *solve.Problem, kept [][]int) (*solve.Solution, error)
	// settles looks at a relaxation's plan with its peak when all is charged, and takes it for best if it is better. It is
	// true if no plan with these first keepers is better than that one.
	settles func(s *solve.Solution, peak int64) bool
	best    *solve.Solution
	nodes   int
	stopped bool // the search was cut short
}

// maxNodes bounds the problems that a branching solves.
const maxNodes = 4000

// walk solves the problem in which the first keepers of the first units are fixed, and if need be those with one more.
func (b *branching) walk(first []int) error {
	q, kept := b.pr.charge(b.p, first)
	if slices.ContainsFunc(kept, func(k []int) bool { return len(k) == 0 }) {
		return nil // no block can be the first keeper here
	}
	if b.nodes++; b.nodes > maxNodes {
		b.stopped = true
		return nil
	}
	s, err := b.relax(q, kept)
	var inf *solve.InfeasibleError
	if errors.As(err, &inf) {
		return nil
	}
	if err != nil || s == nil {
		return err
	}
	for i, k := range s.Choice {
		s.Choice[i] = kept[i][k]
	}
	b.stopped = b.stopped || s.Status != solve.Optimal
	if b.settles(s, b.pr.believe(b.p, s.Choice)) || len(first) == len(b.pr.shared) {
		return nil
	}
	return b.below(first)
}

// below fixes the first keeper of one more unit.
func (b *branching) below(first []int) error {
	for f := range len(b.p.Blocks) + 1 {
		if err := b.walk(append(slices.Clone(first), f)); err != nil {
			return err
		}
	}
	return nil
}

// start solves the problem in which everything shared is alive in the whole of backward: its plans are legal, and seldom
// much slower than the best.
func (b *branching) start(ctx context.Context) {
	q := *b.p
	q.Base += b.pr.sharedBytes()
	if s, err := solve.SolveFlat(ctx, &q); err == nil {
		b.settles(s, b.pr.believe(b.p, s.Choice))
	}
}
