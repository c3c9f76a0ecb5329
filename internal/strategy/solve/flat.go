package solve

import (
	"context"
	"errors"
	"math"
	"slices"
)

// SolveFlat returns the fastest plan in which every block is recomputed at most once, its peak as low as any plan's of
// that time, and among those the fewest changes of option along the chain (as far as tieEffort allows).
//
// Method: the backward recurrence. With P_i the memory needed above A_i from the forward of block i to the end of its
// backward and T_i the extra time of the blocks from i on,
//
//	P_i = max(row_i, s_i + P_{i+1}),  T_i = r_i + T_{i+1},  P_0 ≤ Budget − Base
//
// P_i grows with P_{i+1}, so keeping the non-dominated (P, T) labels at each block is exact to the byte. A label is
// dropped if the least that the blocks before it can save does not fit on top of it, or if a Lagrangian bound on their
// time (Dual) shows that it cannot beat a known plan; that plan comes from the same recurrence with a few labels a
// block. Where the forward prefix and the backward prefix differ by option, or micro batches wait in a pipeline, a
// label has several memory numbers (vectorSearch).
//
// The number of labels is not polynomial in theory; 126 different blocks with 7 options keep about a thousand.
// The optimum is over sums of modelled times on a fixed chain with these prices: it says nothing about kernels that
// overlap, fragmentation, or plans that recompute a block twice (SolveNested).
//
// If ctx ends, the best plan so far is returned with status Feasible and its bound. An *InfeasibleError names the
// smallest budget that a plan of the class fits.
func SolveFlat(ctx context.Context, p *Problem) (*Solution, error) {
	return SolveFlatWithin(ctx, p, math.MaxInt64)
}

// SolveFlatWithin is SolveFlat for plans that take at most cap nanoseconds; it returns nil if none fits in that time.
func SolveFlatWithin(ctx context.Context, p *Problem, cap int64) (*Solution, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	least, err := leastMemory(ctx, p)
	if err != nil {
		return nil, err
	}
	if least.Peak > p.Budget {
		return nil, &InfeasibleError{Budget: p.Budget, Needed: least.Peak}
	}
	c := newChain(p)
	if c.merge() {
		return searchChain(ctx, p, c, least, cap)
	}
	if c.dropForward() {
		// Forward rows seldom bind. The relaxed optimum is the optimum if its peak is the relaxed peak.
		s, err := searchChain(ctx, p, c, least, cap)
		if err != nil || s == nil {
			return s, err
		}
		if s.Status == Optimal && s.Peak == c.peakOf(p, s) {
			s.Dual.Forward = make([]int64, len(s.Dual.Backward))
			return s, nil
		}
	}
	return searchVector(ctx, p, newChain(p), least, cap)
}

// peakOf is the peak of a solution of a single chain, by the chain's rows.
func (c *chain) peakOf(p *Problem, s *Solution) int64 {
	var saved, top int64
	for _, e := range c.path(p, s) {
		top = max(top, saved+e.row)
		saved += e.save
	}
	return max(p.Floor, p.Base+top)
}

// path finds the edges that a solution takes.
func (c *chain) path(p *Problem, s *Solution) []*edge {
	var path []*edge
	taken := s.Segments
	for at := 0; at < len(c.out); {
		segment, choice := -1, s.Head
		switch {
		case at == len(p.Blocks):
		case len(taken) > 0 && p.Segments[taken[0].Segment].First == at:
			segment, choice = taken[0].Segment, taken[0].Choice
			taken = taken[1:]
		default:
			choice = s.Choice[at]
		}
		k := slices.IndexFunc(c.out[at], func(e edge) bool { return e.segment == segment && e.choice == choice })
		path = append(path, &c.out[at][k])
		at = c.out[at][k].to
	}
	return path
}

// label is a partial plan from a position to the end: p bytes needed above what earlier blocks keep, t nanoseconds.
type label struct {
	p, t int64
	edge int32 // index into chain.out of the position
	next int32 // index of the label at the edge's end
}

// search is one run of the backward recurrence over a single chain.
type search struct {
	c      *chain
	prices []*prices
	least  []int64   // least prefix of saved bytes by position
	upper  int64     // time of a known plan: slower labels are dropped
	width  int       // most labels kept at a block; 0: all
	edges  [][]int32 // by position, those looked at
	limits []float64 // by prices: the most that a bound may be
	at     [][]label
	stats  Stats

	heads   []cursor
	scratch []label
}

// cursor walks the labels behind one edge in order of memory.
type cursor struct {
	e    *edge
	list []label
	pos  int
	p, t int64
	edge int32
}

// load computes the label that the cursor stands on.
func (h *cursor) load() {
	l := &h.list[h.pos]
	h.p, h.t = max(h.e.row, h.e.save+l.p), h.e.time+l.t
}

// searchChain solves a single chain exactly.
func searchChain(ctx context.Context, p *Problem, c *chain, least *Solution, cap int64) (*Solution, error) {
	s := &search{c: c, least: c.leastPrefix(func(e *edge) int64 { return e.save })}
	run := func(prices []*prices, upper int64, width int) (*Solution, error) {
		s.prices, s.upper, s.width = prices, upper, width
		if err := s.run(ctx); err != nil {
			return nil, err
		}
		return s.take(p), nil
	}
	best, err := deepen(p, c, least, cap, run)
	if best == nil || err != nil || best.Status != Optimal {
		return best, err
	}
	best.Stats = s.stats
	if best.Peak != c.peakOf(p, best) {
		return best, nil // the chain is a relaxation, and this no answer
	}
	return fewestChanges(ctx, p, c, s.need, best), nil
}

// deepen finds the fastest plan with runs of a recurrence that is exact for plans of at most upper nanoseconds, keeps
// at most width labels a block (0: all), and returns the best plan it finds, if any. The number of labels grows with
// the distance of upper from the dual bound, so upper starts just above that bound and the distance grows until a run
// finds a plan: this one is optimal. A narrow run comes first, for a plan to return if ctx ends. The result is nil if
// no plan takes at most cap nanoseconds.
func deepen(p *Problem, c *chain, least *Solution, cap int64, run func([]*prices, int64, int) (*Solution, error)) (*Solution, error) {
	var best *Solution
	known := cap // no plan slower than this is of interest
	if least.Time <= cap {
		best, known = least, least.Time
	}
	prices, _ := dualSearch(c, min(known, least.Time))
	dual := c.dual(prices[0])
	// Of plans as fast as each other a run that keeps all labels finds the one that its recurrence says needs least.
	improve := func(found *Solution, all bool) {
		if found != nil && (best == nil || found.Time < best.Time || (found.Time == best.Time && (all || found.Peak <= best.Peak))) {
			best, known = found, found.Time
		}
	}
	stop := func(err error) (*Solution, error) {
		if best == nil {
			return nil, err
		}
		return withDual(best, dual), nil
	}
	found, err := run(prices, known, beamWidth)
	if err != nil {
		return stop(err)
	}
	improve(found, false)
	for step := firstStep(dual.Bound, len(c.out)); ; step *= 2 {
		upper := known
		if dual.Bound < known-step {
			upper = dual.Bound + step
		}
		found, err := run(prices, upper, 0)
		if errors.Is(err, ErrEffort) {
			if found, wide := run(prices, known, wideBeam); wide == nil {
				improve(found, false)
			}
		}
		if err != nil {
			return stop(err)
		}
		improve(found, true)
		if found != nil || upper == known {
			break
		}
	}
	if best == nil {
		return nil, nil
	}
	best = withDual(best, dual)
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

// Labels a block that the search for a first plan keeps, and the one for a last plan where exact search is too much.
const (
	beamWidth = 32
	wideBeam  = 1024
)

// withDual copies a solution that is known to fit and attaches what is proved about it.
func withDual(s *Solution, d Dual) *Solution {
	t := *s
	t.Dual, t.Bound, t.Status, t.Closed = d, d.Bound, Feasible, "stopped"
	return &t
}

// take returns the fastest plan of the labels at the first position, or nil.
func (s *search) take(p *Problem) *Solution {
	first := s.at[0]
	if len(first) == 0 {
		return nil
	}
	return p.solution(s.path(int32(len(first) - 1)))
}

// path follows a label at the first position to the end.
func (s *search) path(l int32) []*edge {
	var path []*edge
	for i := 0; i < len(s.c.out); {
		at := &s.at[i][l]
		e := &s.c.out[i][at.edge]
		path = append(path, e)
		i, l = e.to, at.next
	}
	return path
}

// run fills the labels of every position, last first. It returns ctx's error if ctx ended.
func (s *search) run(ctx context.Context) error {
	n := len(s.c.out)
	if s.at == nil {
		s.at = make([][]label, n+1)
		s.at[n] = []label{{}}
	}
	s.stats = Stats{}
	s.edges, s.limits = s.c.worthwhile(s.prices, s.upper)
	for i := n - 1; i >= 0; i-- {
		if err := s.merge(ctx, i); err != nil {
			return err
		}
		if s.width > 0 && len(s.at[i]) > s.width {
			s.narrow(i)
		}
		s.stats.Labels += int64(len(s.at[i]))
		s.stats.Widest = max(s.stats.Widest, int64(len(s.at[i])))
	}
	return nil
}

// merge makes the non-dominated labels of position i, in order of memory, from those behind its edges.
func (s *search) merge(ctx context.Context, i int) error {
	heads := s.heads[:0]
	for _, k := range s.edges[i] {
		e := &s.c.out[i][k]
		h := cursor{e: e, list: s.at[e.to], edge: k}
		if len(h.list) == 0 {
			continue
		}
		// All labels that disappear under the edge's own row have its memory; the last is the fastest.
		h.pos = max(0, lastBelow(h.list, e.row-e.save))
		h.load()
		heads = append(heads, h)
	}
	s.heads = heads
	room := s.c.room - s.least[i]
	fastest := int64(math.MaxInt64)
	out := s.scratch[:0]
	for count := 0; len(heads) > 0; count++ {
		if count&0xfff == 0xfff {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		low, p := 0, heads[0].p
		for k := 1; k < len(heads); k++ {
			if q := heads[k].p; q < p || (q == p && heads[k].t < heads[low].t) {
				low, p = k, q
			}
		}
		h := &heads[low]
		if h.p > room {
			break
		}
		if h.t < fastest {
			fastest = h.t
			if h.t <= s.upper && s.promising(i, h.p, h.t) {
				out = append(out, label{p: h.p, t: h.t, edge: h.edge, next: int32(h.pos)})
			}
		}
		for h.pos++; h.pos < len(h.list) && h.e.time+h.list[h.pos].t >= fastest; h.pos++ {
		}
		if h.pos == len(h.list) {
			heads[low] = heads[len(heads)-1]
			heads = heads[:len(heads)-1]
		} else {
			h.load()
		}
	}
	s.scratch = out
	s.at[i] = append(s.at[i][:0], out...)
	return ctx.Err()
}

// lastBelow is the index of the last label with at most p bytes, or −1.
func lastBelow(list []label, p int64) int {
	lo, hi := 0, len(list)
	for lo < hi {
		if mid := (lo + hi) / 2; list[mid].p <= p {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// promising is false if a Lagrangian bound on the blocks before i proves that the label cannot become a plan as fast
// as the known one.
func (s *search) promising(i int, p, t int64) bool {
	for k, m := range s.prices {
		if float64(t)+m.prefix[i]-m.bwd[i]*float64(s.c.room-p) > s.limits[k] {
			return false
		}
	}
	return true
}

// narrow keeps labels of position i with low bounds, and always the one with the least memory.
func (s *search) narrow(i int) {
	m := s.prices[0]
	score := func(l *label) float64 {
		worst := math.Inf(-1)
		for _, m = range s.prices[:2] {
			worst = max(worst, float64(l.t)+m.prefix[i]+m.bwd[i]*float64(l.p))
		}
		return worst
	}
	s.at[i] = append(s.at[i][:1], lowestOfGroups(s.at[i][1:], s.width-1, score)...)
}
