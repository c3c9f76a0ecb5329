package strategy

import (
	"context"
	"errors"
	"slices"

	"ckptplan/internal/memory"
	"ckptplan/internal/plan"
	"ckptplan/internal/strategy/solve"
)

// more are the options beyond the plain menu that a request allows.
func (r *Request) more() []plan.Option {
	if r.Offload {
		return OffloadOptions(r.OffloadWindow)
	}
	return nil
}

// staging is the bytes that copies under way may hold on the device at once: the layers of the window and the one that runs.
func (pr *pricing) staging(r Request) int64 {
	if !r.Offload || r.OffloadWindow == 0 {
		return 0
	}
	var most int64
	for k := range pr.options {
		if windowed(pr.options[k]) {
			for l := range pr.same {
				most = max(most, pr.at(k, l).Host)
			}
		}
	}
	return int64(r.OffloadWindow+1) * most
}

func windowed(o plan.Option) bool {
	return slices.ContainsFunc(o.Regions, func(r plan.Region) bool { return r.Window > 0 })
}

// overlap turns the prices of synchronous copies into those of copies behind the following layers' work. In the long
// run every layer's copies share the link with its neighbours', so of each direction that much shows which the layer's
// own forward, or backward, is too short for, however wide the window. The simulator has each copy's true wait.
func overlap(blocks []memory.BlockProfile) {
	for i := range blocks {
		b := &blocks[i]
		out := b.Transfer / 2
		b.Transfer = max(0, out-b.Forward) + max(0, b.Transfer-out-b.Backward)
	}
}

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

// host is what a choice puts into host memory.
func (pr *pricing) host(choice []int) int64 {
	var n int64
	for l, k := range choice {
		n += pr.at(k, l).Host
	}
	return n
}

// solveWithin solves the flat problem under a cap on host memory (0: none). The cap is one more additive resource: a
// price per host byte is raised until the cheapest plan keeps to the cap, so the plan is legal and its bound is the
// one without the cap (Lagrangian relaxation; equal bounds prove it optimal).
func (pr *pricing) solveWithin(ctx context.Context, p *solve.Problem, limit int64) (*solve.Solution, error) {
	sol, err := solve.SolveFlat(ctx, p)
	if err != nil || limit <= 0 || pr.host(sol.Choice) <= limit {
		return sol, err
	}
	bound := sol.Time
	least, err := pr.leastHost(ctx, p, limit)
	if err != nil {
		return nil, err
	}
	if least == nil {
		return nil, &solve.InfeasibleError{Budget: p.Budget}
	}
	priced := func(perMiB int64) (*solve.Solution, error) {
		q := *p
		q.Blocks = make([]solve.Block, len(p.Blocks))
		for i := range p.Blocks {
			q.Blocks[i] = p.Blocks[i]
			q.Blocks[i].Choices = append([]solve.Choice(nil), p.Blocks[i].Choices...)
			for k := range q.Blocks[i].Choices {
				q.Blocks[i].Choices[k].Time += pr.hostMiB(k, i) * perMiB
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
	for most := pr.highestPrice(p); hi <= most; hi *= 4 {
		s, err := priced(hi)
		if err != nil {
			return nil, err
		}
		if pr.host(s.Choice) <= limit {
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
		s, err := priced(mid)
		if err != nil {
			return nil, err
		}
		if pr.host(s.Choice) > limit {
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
func (pr *pricing) hostMiB(k, layer int) int64 { return (pr.at(k, layer).Host + 1<<20 - 1) >> 20 }

// highestPrice is the highest price of a MiB of host memory that is tried: beyond any time that it can save, or where
// times would add up to more than a problem may hold.
func (pr *pricing) highestPrice(p *solve.Problem) int64 {
	room, mib := int64(solve.Largest), int64(1)
	for i := range p.Blocks {
		var slowest, most int64
		for k := range p.Blocks[i].Choices {
			slowest, most = max(slowest, p.Blocks[i].Choices[k].Time), max(most, pr.hostMiB(k, i))
		}
		room, mib = room-slowest, mib+most
	}
	return min(1<<39, room/mib)
}

// leastHost is the plan within the budget that puts the fewest bytes into host memory; nil if they exceed the limit or no
// plan is within the budget.
func (pr *pricing) leastHost(ctx context.Context, p *solve.Problem, limit int64) (*solve.Solution, error) {
	s, err := solve.SolveFlat(ctx, pr.hosted(p))
	var inf *solve.InfeasibleError
	if errors.As(err, &inf) {
		return nil, nil
	}
	if err != nil || pr.host(s.Choice) > limit {
		return nil, err
	}
	_, s.Time = p.Evaluate(s.Choice)
	return s, nil
}

// hosted is a problem whose times are the bytes that choices put into host memory.
func (pr *pricing) hosted(p *solve.Problem) *solve.Problem {
	q := *p
	q.Blocks = slices.Clone(p.Blocks)
	for i := range q.Blocks {
		b := &q.Blocks[i]
		b.Choices = slices.Clone(b.Choices)
		for k := range b.Choices {
			b.Choices[k].Time = pr.at(k, i).Host
		}
	}
	return &q
}

// minPeakWithin is the lowest peak of the plans that put at most limit bytes into host memory, by bisection on the budget.
// Some plan keeps to the limit: a menu has options that use no host memory.
func (pr *pricing) minPeakWithin(ctx context.Context, p *solve.Problem, limit int64) (int64, error) {
	q := *p
	q.Budget = solve.Largest
	best, err := pr.leastHost(ctx, &q, limit)
	if err != nil {
		return 0, err
	}
	least := int64(0) // fits no such plan
	for best.Peak-least > 1 {
		q.Budget = least + (best.Peak-least)/2
		switch s, err := pr.leastHost(ctx, &q, limit); {
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
