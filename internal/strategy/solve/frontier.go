package solve

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// Frontier holds the non-dominated (peak, time) pairs of the plans of a flat problem, by rising peak and falling time.
type Frontier struct {
	Points []FrontierPoint
	// Loss is the most that rounding can cost, in bytes: for every plan of the class whose peak is Loss below the
	// budget there is a point that is no slower and whose peak is at most Loss higher. It is 0 without rounding. Each
	// point's own peak is exact.
	Loss  int64
	Stats Stats

	problem *Problem
	search  *search
}

// FrontierPoint is a plan's peak in bytes, base and floor included, and its extra time in nanoseconds.
type FrontierPoint struct {
	Peak, Time int64
	label      int32
}

// Solution returns the plan behind a point. It is a fastest plan for its peak up to Frontier.Loss.
func (f *Frontier) Solution(point int) *Solution {
	s := f.problem.solution(f.search.choices(&f.search.at[0][f.Points[point].label], nil))
	s.Status, s.Closed, s.Bound, s.Stats = Feasible, "frontier", 0, f.Stats
	if f.Loss == 0 {
		s.Status, s.Closed, s.Bound = Optimal, "exact-search", s.Time
	}
	return s
}

// SolveFrontier returns the whole trade-off between peak and time in one pass of the recurrence of SolveFlat, for all
// budgets up to the problem's (0: no limit). With a quantum above 1, sizes are rounded up to multiples of it inside
// the recurrence, which bounds the number of labels by memory/quantum: a chain of hundreds of different blocks has
// too many exact ones. If nothing fits, the error is an *InfeasibleError; if ctx ends, ctx's error.
func SolveFrontier(ctx context.Context, p *Problem, quantum int64) (*Frontier, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if quantum < 0 || quantum > Largest/int64(len(p.Blocks)+2) {
		return nil, fmt.Errorf("%w: quantum %d is out of range", ErrInvalidProblem, quantum)
	}
	g := newGraph(p)
	least, err := minPeak(ctx, p, g)
	if err != nil {
		return nil, err
	}
	if p.Budget > 0 && least.Peak > p.Budget {
		return nil, &InfeasibleError{Budget: p.Budget, Needed: least.Peak}
	}
	if p.Budget == 0 {
		g.room = Largest
	}
	f := &Frontier{problem: p}
	if quantum > 1 {
		g = g.roundUp(quantum)
		f.Loss = int64(len(p.Blocks)+1) * (quantum - 1)
	}
	f.search = newSearch(g)
	if err := f.search.run(ctx); err != nil {
		return nil, err
	}
	f.Stats = f.search.stats
	var choice []int
	for l := range f.search.at[0] {
		at := &f.search.at[0][l]
		point := FrontierPoint{Peak: max(p.Floor, p.Base+max(at.b, at.f)), Time: at.t, label: int32(l)}
		if quantum > 1 {
			choice = f.search.choices(at, choice)
			point.Peak, _ = p.Evaluate(choice)
		}
		f.Points = append(f.Points, point)
	}
	if len(f.Points) == 0 {
		// The budget is within Loss of the least; few exact labels fit it.
		return SolveFrontier(ctx, p, 0)
	}
	f.thin()
	if only := f.Points[0]; only.Peak == p.Floor && only.Time == 0 {
		f.Loss = 0 // no plan has a lower peak or is faster, whatever the rounding
	}
	return f, nil
}

// thin sorts the points and drops the dominated ones.
func (f *Frontier) thin() {
	slices.SortFunc(f.Points, func(x, y FrontierPoint) int {
		return cmp.Or(cmp.Compare(x.Peak, y.Peak), cmp.Compare(x.Time, y.Time), cmp.Compare(x.label, y.label))
	})
	fastest := int64(math.MaxInt64)
	f.Points = slices.DeleteFunc(f.Points, func(p FrontierPoint) bool {
		if p.Time >= fastest {
			return true
		}
		fastest = p.Time
		return false
	})
}
