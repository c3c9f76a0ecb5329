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
	paths   func(point int32) []*edge
}

// FrontierPoint is a plan's peak in bytes, base and floor included, and its extra time in nanoseconds.
type FrontierPoint struct {
	Peak, Time int64
	label      int32
}

// Solution returns the plan behind a point. It is a fastest plan for its peak up to Frontier.Loss.
func (f *Frontier) Solution(point int) *Solution {
	s := f.problem.solution(f.paths(f.Points[point].label))
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
	least, err := leastMemory(ctx, p)
	if err != nil {
		return nil, err
	}
	if p.Budget > 0 && least.Peak > p.Budget {
		return nil, &InfeasibleError{Budget: p.Budget, Needed: least.Peak}
	}
	f := &Frontier{problem: p}
	exact := newChain(p)
	merged := exact.merge()
	if p.Budget == 0 {
		exact.room = Largest
	}
	c := exact
	if quantum > 1 {
		c = exact.roundUp(quantum)
		f.Loss = int64(len(p.Blocks)+1) * (quantum - 1)
		for _, b := range p.Blocks {
			f.Loss += min(b.Waiting, 1) * (quantum - 1)
		}
	}
	if merged {
		err = f.fill(ctx, c, exact)
	} else {
		err = f.fillVector(ctx, c, exact)
	}
	if err != nil {
		return nil, err
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

// fill runs the recurrence of a single chain c and measures its plans on the exact chain.
func (f *Frontier) fill(ctx context.Context, c, exact *chain) error {
	s := &search{c: c, least: c.leastPrefix(func(e *edge) int64 { return e.save }), upper: math.MaxInt64}
	if err := s.run(ctx); err != nil {
		return err
	}
	s.c = exact
	for l := range s.at[0] {
		var saved, top int64
		for i, l := 0, int32(l); i < len(exact.out); {
			at := &s.at[i][l]
			e := &exact.out[i][at.edge]
			top = max(top, saved+e.row)
			saved += e.save
			i, l = e.to, at.next
		}
		f.add(top, s.at[0][l].t, l)
	}
	f.Stats, f.paths = s.stats, s.path
	return nil
}

// fillVector is fill for a chain whose labels are vectors.
func (f *Frontier) fillVector(ctx context.Context, c, exact *chain) error {
	s := newVectorSearch(c)
	if err := s.run(ctx); err != nil {
		return err
	}
	s.c = exact
	for l := range s.at[0] {
		var saved, savedFwd, held, top int64
		for _, e := range s.path(int32(l)) {
			top = max(top, saved+e.row, savedFwd+e.rowFwd)
			saved += e.save
			savedFwd += e.saveFwd
			held += e.held
		}
		f.add(held+top, s.at[0][l].t, l)
	}
	f.Stats, f.paths = s.stats, s.path
	return nil
}

func (f *Frontier) add(above, time int64, label int) {
	f.Points = append(f.Points, FrontierPoint{Peak: max(f.problem.Floor, f.problem.Base+above), Time: time, label: int32(label)})
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

// roundUp returns the chain with every size a multiple of the quantum, none smaller.
func (c *chain) roundUp(quantum int64) *chain {
	up := func(x int64) int64 {
		switch rest := x % quantum; {
		case rest > 0:
			return x + quantum - rest
		default:
			return x - rest // of a negative size, towards 0
		}
	}
	r := &chain{out: make([][]edge, len(c.out)), room: c.room, single: c.single, holds: c.holds}
	for i, edges := range c.out {
		r.out[i] = slices.Clone(edges)
		for k := range r.out[i] {
			e := &r.out[i][k]
			e.save, e.saveFwd, e.row, e.rowFwd, e.held = up(e.save), up(e.saveFwd), up(e.row), up(e.rowFwd), up(e.held)
		}
	}
	return r
}
