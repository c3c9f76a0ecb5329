package strategy

import (
	"context"
	"errors"
	"slices"

	"ckptplan/internal/strategy/solve"
)

// windowed finds the faster of the best plan that offloads through a staging buffer and the best that does not,
// and so has no buffer.
func (g graphs) windowed(ctx context.Context, req Request) (*Result, error) {
	plain := req
	plain.Offload, plain.OffloadWindow = false, 0
	without, errWithout := g.search(ctx, plain)
	with, err := g.search(ctx, req)
	var a, b *NoPlanError
	switch {
	case err != nil && !errors.As(err, &a):
		return nil, err
	case errWithout != nil && !errors.As(errWithout, &b):
		return nil, errWithout
	case err != nil:
		if b != nil && a.Smallest < b.Smallest {
			return nil, err
		}
		return without, errWithout
	case errWithout != nil || with.Timeline.Times.Step() < without.Timeline.Times.Step():
		if with.Solution != nil {
			with.Solution.Status, with.Solution.Closed = solve.Feasible, "copies overlap"
		}
		return with, nil
	}
	return without, nil
}

// keepsToCap is true if a solution puts no more into host memory than the cap allows.
func (sp *space) keepsToCap(s *solve.Solution) bool {
	var n int64
	for l, k := range s.Choice {
		n += sp.At(k, l).Host
	}
	return sp.host == 0 || n <= sp.host
}

// solveCapped solves the flat problem under the cap on host memory. The cap is one more additive resource: a
// time per MiB on the host is raised until the fastest plan keeps to the cap, so the plan is legal and its bound is the
// one without the cap (Lagrangian relaxation; equal bounds prove it optimal).
func (sp *space) solveCapped(ctx context.Context, p *solve.Problem) (*solve.Solution, error) {
	sol, err := solve.SolveFlat(ctx, p)
	if err != nil || sp.keepsToCap(sol) {
		return sol, err
	}
	bound := sol.Time
	least, err := sp.leastHost(ctx, p)
	if err != nil {
		return nil, err
	}
	if least == nil {
		return nil, &solve.InfeasibleError{Budget: p.Budget}
	}
	rated := func(perMiB int64) (*solve.Solution, error) {
		q := *p
		q.Blocks = make([]solve.Block, len(p.Blocks))
		for i := range p.Blocks {
			q.Blocks[i] = p.Blocks[i]
			q.Blocks[i].Choices = append([]solve.Choice(nil), p.Blocks[i].Choices...)
			for k := range q.Blocks[i].Choices {
				q.Blocks[i].Choices[k].Time += sp.hostMiB(k, i) * perMiB
			}
		}
		s, err := solve.SolveFlat(ctx, &q)
		if err == nil {
			_, s.Time = p.Evaluate(s.Choice)
		}
		return s, err
	}
	lo, hi := int64(0), int64(1)
	var best *solve.Solution
	for most := sp.highestRate(p); hi <= most; hi *= 4 {
		s, err := rated(hi)
		if err != nil {
			return nil, err
		}
		if sp.keepsToCap(s) {
			best = s
			break
		}
		lo = hi
	}
	if best == nil {
		best, hi = least, lo
	}
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		s, err := rated(mid)
		if err != nil {
			return nil, err
		}
		if !sp.keepsToCap(s) {
			lo = mid
			continue
		}
		hi = mid
		if s.Time < best.Time {
			best = s
		}
	}
	best.Bound, best.Status, best.Closed = bound, solve.Feasible, "host memory priced"
	if best.Time == bound {
		best.Status = solve.Optimal
	}
	return best, nil
}

// hostMiB is what option k at a layer puts into host memory, in whole MiB.
func (sp *space) hostMiB(k, layer int) int64 { return (sp.At(k, layer).Host + 1<<20 - 1) >> 20 }

// highestRate is the most time a MiB of host memory that is tried: beyond any time that it can save, or where
// times would add up to more than a problem may hold.
func (sp *space) highestRate(p *solve.Problem) int64 {
	room, mib := int64(solve.Largest), int64(1)
	for i := range p.Blocks {
		var slowest, most int64
		for k := range p.Blocks[i].Choices {
			slowest, most = max(slowest, p.Blocks[i].Choices[k].Time), max(most, sp.hostMiB(k, i))
		}
		room, mib = room-slowest, mib+most
	}
	return min(1<<39, room/mib)
}

// leastHost is the plan within the budget that puts the fewest bytes into host memory; nil if they exceed the cap or no
// plan is within the budget.
func (sp *space) leastHost(ctx context.Context, p *solve.Problem) (*solve.Solution, error) {
	s, err := solve.SolveFlat(ctx, sp.hosted(p))
	var inf *solve.InfeasibleError
	if errors.As(err, &inf) {
		return nil, nil
	}
	if err != nil || !sp.keepsToCap(s) {
		return nil, err
	}
	_, s.Time = p.Evaluate(s.Choice)
	return s, nil
}

// hosted is a problem whose times are the bytes that choices put into host memory.
func (sp *space) hosted(p *solve.Problem) *solve.Problem {
	q := *p
	q.Blocks = slices.Clone(p.Blocks)
	for i := range q.Blocks {
		b := &q.Blocks[i]
		b.Choices = slices.Clone(b.Choices)
		for k := range b.Choices {
			b.Choices[k].Time = sp.At(k, i).Host
		}
	}
	return &q
}

// minPeakCapped is the lowest peak of the plans that keep to the cap, by bisection on the budget.
// Some plan does: a menu has options that use no host memory.
func (sp *space) minPeakCapped(ctx context.Context, p *solve.Problem) (int64, error) {
	q := *p
	q.Budget = solve.Largest
	best, err := sp.leastHost(ctx, &q)
	if err != nil {
		return 0, err
	}
	least := int64(0) // fits no such plan
	for best.Peak-least > 1 {
		q.Budget = least + (best.Peak-least)/2
		switch s, err := sp.leastHost(ctx, &q); {
		case err != nil:
			return 0, err
		case s == nil:
			least = q.Budget
		default:
			best = s
		}
	}
	return best.Peak, nil
}

// minPeak is the solution with the lowest peak under the cap on host memory; ties go to the fastest one found.
func (sp *space) minPeak(ctx context.Context, p *solve.Problem) (*solve.Solution, error) {
	if sp.host == 0 {
		return solve.MinPeak(ctx, p)
	}
	q := *p
	var err error
	if q.Budget, err = sp.minPeakCapped(ctx, p); err != nil {
		return nil, err
	}
	return sp.solveCapped(ctx, &q)
}
