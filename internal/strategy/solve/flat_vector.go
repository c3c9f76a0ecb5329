package solve

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
)

// vector is a partial plan from a position to the end that needs several memory numbers, in bytes:
//
//	b  above the sum that earlier blocks keep for backward:     b = max(row, save + b')
//	f  above the sum that they keep until the end of forward:   f = max(rowFwd, saveFwd + f')
//	a  held by waiting micro batches during the whole step:     a = held + a'
//
// A plan fits if a + max(b, f) ≤ Budget − Base at position 0.
type vector struct {
	b, f, a, t int64
	edge, next int32
}

func (v *vector) within(w *vector) bool { return v.b <= w.b && v.f <= w.f && v.a <= w.a && v.t <= w.t }

// vectorSearch is the recurrence of search with vectors for labels.
type vectorSearch struct {
	c                      *chain
	prices                 []*prices // empty: no bound on time
	leastB, leastF, leastA []int64   // least prefixes
	upper                  int64
	timeless               bool // only memory matters
	width                  int
	at                     [][]vector
	stats                  Stats
	limits                 []float64 // by prices: the most that a bound may be
}

func newVectorSearch(c *chain) *vectorSearch {
	return &vectorSearch{
		c:      c,
		leastB: c.leastPrefix(func(e *edge) int64 { return e.save }),
		leastF: c.leastPrefix(func(e *edge) int64 { return e.saveFwd }),
		leastA: c.leastPrefix(func(e *edge) int64 { return e.held }),
		upper:  math.MaxInt64,
	}
}

// maxCandidates bounds the vectors looked at for one block. Where the forward and the backward of many layers bind at
// once, exact search can take minutes; beyond this it stops, and the best plan found is given with its proved bound.
const maxCandidates = 100_000

// ErrEffort stops a search that grows beyond maxCandidates.
var ErrEffort = errors.New("the search grew too large")

// searchVector solves a chain that needs vectors, exactly unless it grows beyond maxCandidates.
func searchVector(ctx context.Context, p *Problem, c *chain, least *Solution, cap int64) (*Solution, error) {
	s := newVectorSearch(c)
	best, err := deepen(p, c, least, cap, func(prices []*prices, upper int64, width int) (*Solution, error) {
		s.prices, s.upper, s.width = prices, upper, width
		if err := s.run(ctx); err != nil {
			return nil, err
		}
		return s.take(p), nil
	})
	if best == nil || err != nil || best.Status != Optimal {
		return best, err
	}
	best.Stats = s.stats
	return fewestChanges(ctx, p, c, s.need, best), nil
}

// leastVector returns a plan with the lowest peak of all. A narrow run gives a peak that the full run must beat.
func leastVector(ctx context.Context, p *Problem) (*Solution, error) {
	c := newChain(p)
	c.room = Largest
	s := newVectorSearch(c)
	s.timeless, s.width = true, beamWidth
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	best := s.take(p)
	c.room = best.Peak - p.Base
	s.width = 0
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s.take(p), nil
}

// take returns the best plan of the labels at the first position: the fastest, then the one with the lowest peak.
func (s *vectorSearch) take(p *Problem) *Solution {
	if len(s.at[0]) == 0 {
		return nil
	}
	need := func(v *vector) int64 { return v.a + max(v.b, v.f) }
	l := 0
	for k := range s.at[0] {
		v, w := &s.at[0][k], &s.at[0][l]
		if v.t < w.t || (v.t == w.t && need(v) < need(w)) {
			l = k
		}
	}
	return p.solution(s.path(int32(l)))
}

// path follows a label at the first position to the end.
func (s *vectorSearch) path(l int32) []*edge {
	var path []*edge
	for i := 0; i < len(s.c.out); {
		v := &s.at[i][l]
		e := &s.c.out[i][v.edge]
		path = append(path, e)
		i, l = e.to, v.next
	}
	return path
}

// run fills the labels of every position, last first.
func (s *vectorSearch) run(ctx context.Context) error {
	n := len(s.c.out)
	s.at = make([][]vector, n+1)
	s.at[n] = []vector{{}}
	s.stats = Stats{}
	edges, limits := s.c.worthwhile(s.prices, s.upper)
	s.limits = limits
	for i := n - 1; i >= 0; i-- {
		kept, err := s.merge(ctx, i, edges[i])
		if err != nil {
			return err
		}
		if s.width > 0 && len(kept) > s.width {
			kept = s.narrow(i, kept)
			slices.SortFunc(kept, compareVectors)
		}
		s.at[i] = kept
		s.stats.Labels += int64(len(kept))
		s.stats.Widest = max(s.stats.Widest, int64(len(kept)))
	}
	return nil
}

// merge makes the undominated labels of position i in order of time from those behind its edges, which have that order,
// too.
func (s *vectorSearch) merge(ctx context.Context, i int, edges []int32) ([]vector, error) {
	type cursor struct {
		v    vector
		e    *edge
		list []vector
	}
	load := func(h *cursor) {
		w := &h.list[h.v.next]
		h.v.b, h.v.f, h.v.a = max(h.e.row, h.e.save+w.b), max(h.e.rowFwd, h.e.saveFwd+w.f), h.e.held+w.a
		if !s.timeless {
			h.v.t = h.e.time + w.t
		}
	}
	var heads []cursor
	total := 0
	for _, k := range edges {
		e := &s.c.out[i][k]
		if len(s.at[e.to]) > 0 {
			heads = append(heads, cursor{v: vector{edge: k}, e: e, list: s.at[e.to]})
			load(&heads[len(heads)-1])
			total += len(s.at[e.to])
		}
	}
	if s.width == 0 && !s.timeless && total > maxCandidates {
		return nil, ErrEffort
	}
	f := vectorFront{held: s.c.holds}
	for count := 0; len(heads) > 0; count++ {
		if count&0x3ff == 0x3ff && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		low := 0
		for k := 1; k < len(heads); k++ {
			if compareVectors(heads[k].v, heads[low].v) < 0 {
				low = k
			}
		}
		h := &heads[low]
		if v := &h.v; v.a+s.leastA[i]+max(v.b+s.leastB[i], v.f+s.leastF[i]) <= s.c.room && s.promising(i, v) {
			f.add(v)
		}
		if h.v.next++; int(h.v.next) < len(h.list) {
			load(h)
		} else {
			heads[low] = heads[len(heads)-1]
			heads = heads[:len(heads)-1]
		}
	}
	return f.kept, ctx.Err()
}

// promising is search.promising with a price on both kinds of rows.
func (s *vectorSearch) promising(i int, v *vector) bool {
	if v.t > s.upper {
		return false
	}
	for k, m := range s.prices {
		if s.bound(m, i, v) > s.limits[k] {
			return false
		}
	}
	return true
}

// bound is the Lagrangian bound on the time of plans that end in v.
func (s *vectorSearch) bound(m *prices, i int, v *vector) float64 {
	room := float64(s.c.room)
	return float64(v.t) + m.prefix[i] - m.bwd[i]*(room-float64(v.b)) - m.fwd[i]*(room-float64(v.f)) + (m.bwd[0]+m.fwd[0])*float64(v.a)
}

// narrow keeps the labels with the lowest bounds, and those with the least need of memory.
func (s *vectorSearch) narrow(i int, list []vector) []vector {
	need := func(v *vector) int64 { return v.a + s.leastA[i] + max(v.b+s.leastB[i], v.f+s.leastF[i]) }
	least := slices.MinFunc(list, func(v, w vector) int { return cmp.Compare(need(&v), need(&w)) })
	if s.timeless {
		slices.SortStableFunc(list, func(v, w vector) int { return cmp.Compare(need(&v), need(&w)) })
	} else {
		score := func(v *vector) float64 {
			worst := math.Inf(-1)
			for _, m := range s.prices[:min(3, len(s.prices))] {
				worst = max(worst, s.bound(m, i, v))
			}
			return worst
		}
		slices.SortFunc(list, func(v, w vector) int {
			return cmp.Or(cmp.Compare(v.b, w.b), cmp.Compare(v.f, w.f), cmp.Compare(v.t, w.t))
		})
		list = lowestOfGroups(list, s.width-1, score)
		return append(list, least)
	}
	return append(list[:s.width-1], least)
}

// compareVectors orders by time, then by memory.
func compareVectors(v, w vector) int {
	switch {
	case v.t != w.t:
		return cmp.Compare(v.t, w.t)
	case v.b != w.b:
		return cmp.Compare(v.b, w.b)
	}
	return cmp.Or(cmp.Compare(v.f, w.f), cmp.Compare(v.a, w.a), cmp.Compare(v.edge, w.edge))
}

// vectorFront keeps the vectors that no other one is within, of vectors that come in order of time. Without held bytes
// a staircase over the two memory numbers finds out; with them each vector is compared with all that are kept.
type vectorFront struct {
	held  bool
	kept  []vector
	steps []stair
}

func (f *vectorFront) add(v *vector) {
	fresh := true
	if f.held {
		fresh = !slices.ContainsFunc(f.kept, func(w vector) bool { return w.within(v) })
	} else {
		f.steps, fresh = addStair(f.steps, stair{v.b, v.f})
	}
	if fresh {
		f.kept = append(f.kept, *v)
	}
}

// stair is a corner of the lower-left boundary of points in the plane: x rises, y falls along the staircase.
type stair struct{ x, y int64 }

// addStair adds a point unless the staircase already covers it, and removes the corners that it covers.
func addStair(steps []stair, p stair) ([]stair, bool) {
	k, exact := slices.BinarySearchFunc(steps, p, func(s, t stair) int { return cmp.Compare(s.x, t.x) })
	if (exact && steps[k].y <= p.y) || (k > 0 && steps[k-1].y <= p.y) {
		return steps, false
	}
	end := k
	for end < len(steps) && steps[end].y >= p.y {
		end++
	}
	return slices.Replace(steps, k, end, p), true
}
