package solve

import (
	"context"
	"fmt"
	"math"
)

// MinMemory returns the plan with the lowest peak, the fastest of those, whatever the problem's budget.
func MinMemory(ctx context.Context, p *Problem) (*Solution, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	least, err := leastMemory(ctx, p)
	if err != nil {
		return nil, err
	}
	q := *p
	q.Budget = least.Peak
	return SolveFlat(ctx, &q)
}

// MinMemoryWithin returns the plan with the lowest peak among those that take at most cap nanoseconds of extra time,
// the fastest of those. A *TooSlowError says that no plan is that fast. It bisects on the budget, between the peak of the last
// plan found and the Largest budget known to be too small.
func MinMemoryWithin(ctx context.Context, p *Problem, cap int64) (*Solution, error) {
	best, err := MinMemory(ctx, p)
	if err != nil || best.Time <= cap {
		return best, err
	}
	q := *p
	q.Budget = Largest
	least := best.Peak // fits no plan within cap
	best, err = SolveFlatWithin(ctx, &q, cap)
	if err != nil {
		return nil, err
	}
	if best == nil {
		fastest, err := SolveFlat(ctx, &q)
		if err != nil {
			return nil, err
		}
		return nil, &TooSlowError{Cap: cap, Fastest: fastest.Time}
	}
	for best.Peak-least > 1 {
		q.Budget = least + (best.Peak-least)/2
		s, err := SolveFlatWithin(ctx, &q, cap)
		switch {
		case err != nil:
			return nil, err
		case s != nil && s.Status != Optimal:
			return best, nil // ctx ended: best fits the cap, its peak is not proved least
		case s == nil:
			least = q.Budget
		default:
			best = s
		}
	}
	return best, nil
}

// TooSlowError reports that no plan of the class takes at most Cap nanoseconds of extra time, at any budget.
type TooSlowError struct {
	Cap, Fastest int64
}

func (e *TooSlowError) Error() string {
	return fmt.Sprintf("no plan takes at most %d ns of extra time: the fastest takes %d ns", e.Cap, e.Fastest)
}

// leastMemory returns a plan with the lowest peak of all, without care for its time. For a single chain the recurrence
// needs one number a block, P_i = min max(row_i, s_i + P_{i+1}).
func leastMemory(ctx context.Context, p *Problem) (*Solution, error) {
	c := newChain(p)
	if c.merge() {
		return p.solution(c.leastPath()), nil
	}
	if c.dropForward() {
		s := p.solution(c.leastPath())
		if s.Peak == c.peakOf(p, s) {
			return s, nil
		}
	}
	return leastVector(ctx, p)
}

// leastPath is the path of a single chain with the lowest peak; of several choices that need the same, the fastest.
func (c *chain) leastPath() []*edge {
	n := len(c.out)
	need := make([]int64, n+1)
	best := make([]*edge, n)
	for i := n - 1; i >= 0; i-- {
		need[i] = math.MaxInt64
		for k := range c.out[i] {
			e := &c.out[i][k]
			at := max(e.row, e.save+need[e.to])
			if at < need[i] || (at == need[i] && e.time < best[i].time) {
				need[i], best[i] = at, e
			}
		}
	}
	var path []*edge
	for i := 0; i < n; i = best[i].to {
		path = append(path, best[i])
	}
	return path
}
