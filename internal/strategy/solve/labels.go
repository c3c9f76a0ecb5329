package solve

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
)

// label is a partial plan from a node to the end: the bytes that it needs above what earlier blocks keep for backward (b)
// and until the end of forward (f), and its nanoseconds (t). edge is the node's step that it begins with, next the label
// at the end of that step.
type label struct {
	b, f, t    int64
	edge, next int32
}

// search is one run of the backward recurrence
//
//	b = max(row, save + b')    f = max(rowFwd, saveFwd + f')    t = time + t'
//
// over a graph. Both needs grow with those behind, so keeping the labels that no other beats in all three numbers is exact.
type search struct {
	g        *graph
	leastB   []int64 // least prefixes by node
	leastF   []int64
	ahead    []int64 // most that the forward prefix can exceed the backward prefix by, by node
	all      []*multipliers
	limits   []float64 // by multipliers: the most that a bound may be
	upper    int64     // slower labels are dropped
	width    int       // most labels kept at a node; 0: all
	timeless bool      // only memory matters
	at       [][]label // by node, in order of time
	stats    Stats

	pairs [][][]bool // superfluous ones by node; nil: not asked for

	cursors []cursor
	heads   []*cursor
	lines   []line
	steps   []stair
	kept    []label
}

func newSearch(g *graph) *search {
	ahead := g.leastPrefix(func(e *edge) int64 { return e.save - e.saveFwd })
	for i := range ahead {
		ahead[i] = -ahead[i]
	}
	return &search{
		g: g, upper: math.MaxInt64, ahead: ahead,
		leastB: g.leastPrefix(func(e *edge) int64 { return e.save }),
		leastF: g.leastPrefix(func(e *edge) int64 { return e.saveFwd }),
	}
}

// maxLabels bounds the labels of all nodes together, 32 bytes each: 512 MiB. Where the forward and the backward of many
// layers bind at once, exact search can take minutes; beyond this it stops, and the best plan found is given with its
// proved bound.
const maxLabels = 16 << 20

// maxCandidates bounds the labels looked at for one node, for the same reason: a node's work grows with the square of
// its labels where both rows bind.
const maxCandidates = 100_000

// ErrEffort stops a search that grows beyond maxLabels or maxCandidates.
var ErrEffort = errors.New("the search grew too large")

// take returns the best plan of the labels at the first node: the fastest, then the one with the lowest peak; nil if
// there is none.
func (s *search) take(p *Problem) *Solution {
	if len(s.at[0]) == 0 {
		return nil
	}
	l := slices.MinFunc(s.at[0], func(v, w label) int {
		return cmp.Or(cmp.Compare(v.t, w.t), cmp.Compare(max(v.b, v.f), max(w.b, w.f)))
	})
	return p.solution(s.choices(&l, nil))
}

// choices follows a label at the first node to the end, and writes the options over a list that may be reused.
func (s *search) choices(l *label, over []int) []int {
	out := slices.Grow(over[:0], s.g.blocks)
	for i := int32(0); len(out) < s.g.blocks; {
		e := &s.g.nodes[i].edges[l.edge]
		out = append(out, int(e.choice))
		i = e.to
		l = &s.at[i][l.next]
	}
	return out
}

// run fills the labels of every node, last first.
func (s *search) run(ctx context.Context) error {
	n := len(s.g.nodes)
	if s.at == nil {
		s.at = make([][]label, n+1)
	}
	s.at[n] = []label{{}}
	if s.pairs == nil && s.width == 0 && !s.timeless && s.g.blocks >= manyBlocks {
		s.pairs = s.g.superfluous()
	}
	s.stats = Stats{}
	edges, limits := s.g.worthwhile(s.all, s.upper)
	s.limits = limits
	for i := n - 1; i >= 0; i-- {
		if err := s.merge(ctx, i, edges[i]); err != nil {
			return err
		}
		if s.width > 0 && len(s.kept) > s.width {
			s.narrow(i)
		}
		s.at[i] = append(s.at[i][:0], s.kept...)
		s.stats.Labels += int64(len(s.kept))
		s.stats.Widest = max(s.stats.Widest, int64(len(s.kept)))
		if s.stats.Labels > maxLabels && !s.timeless && s.width == 0 {
			return ErrEffort
		}
	}
	return ctx.Err()
}

// cursor walks the labels behind one edge in order of time.
type cursor struct {
	v    label
	e    *edge
	list []label
	skip []bool // by option behind it: the pair is superfluous
}

// load makes the label that the cursor stands on and reports whether there is one that can be of use: not after one with
// the edge's own rows, which beats all after it.
func (h *cursor) load(timeless bool) bool {
	for h.skip != nil && int(h.v.next) < len(h.list) && h.skip[h.list[h.v.next].edge] {
		h.v.next++
	}
	if int(h.v.next) == len(h.list) {
		return false
	}
	w := &h.list[h.v.next]
	h.v.b = max(h.e.row, h.e.save+w.b)
	h.v.f = max(h.e.rowFwd, h.e.saveFwd+w.f)
	if !timeless {
		h.v.t = h.e.time + w.t
	}
	return true
}

// merge makes the labels of node i that no other beats, in order of time, from those behind its edges, which have that
// order as well.
func (s *search) merge(ctx context.Context, i int, edges []int32) error {
	s.cursors = slices.Grow(s.cursors[:0], len(edges))
	heads := s.heads[:0] // a heap of cursors: the first is before all others
	total := 0
	for _, k := range edges {
		e := &s.g.nodes[i].edges[k]
		h := cursor{v: label{edge: k}, e: e, list: s.at[e.to]}
		if s.pairs != nil && s.width == 0 && s.pairs[i] != nil {
			h.skip = s.pairs[i][k]
		}
		if h.load(s.timeless) {
			s.cursors = append(s.cursors, h)
			heads = append(heads, &s.cursors[len(s.cursors)-1])
			total += len(h.list)
		}
	}
	s.heads = heads
	for k := len(heads)/2 - 1; k >= 0; k-- {
		sink(heads, k)
	}
	if s.width == 0 && !s.timeless && s.g.forward && total > maxCandidates {
		return ErrEffort
	}
	s.linesAt(i)
	roomB, roomF := s.g.room-s.leastB[i], s.g.room-s.leastF[i]
	lowest := int64(math.MaxInt64) // the least b of labels whose f does not matter
	s.steps, s.kept = s.steps[:0], s.kept[:0]
	for count := 0; len(heads) > 0; count++ {
		if count&0x3ff == 0x3ff && ctx.Err() != nil {
			return ctx.Err()
		}
		h := heads[0]
		v := &h.v
		if v.t > s.upper {
			break
		}
		if v.b < lowest && v.b <= roomB && v.f <= roomF && s.promising(v) {
			fresh := true
			if v.f+s.ahead[i] <= v.b { // whatever comes before: forward needs no more than backward
				lowest = v.b
			} else {
				s.steps, fresh = addStair(s.steps, stair{v.b, v.f})
			}
			if fresh {
				s.kept = append(s.kept, *v)
			}
		}
		more := true
		for h.v.next++; ; h.v.next++ { // labels that cannot be kept need no place in the order
			more = h.e.row < lowest && h.load(s.timeless)
			if !more || h.v.b < lowest && h.v.b <= roomB && h.v.f <= roomF {
				break
			}
		}
		if !more {
			heads[0] = heads[len(heads)-1]
			heads = heads[:len(heads)-1]
		}
		sink(heads, 0)
	}
	return nil
}

// sink moves a head of the heap down to where it is before those below it.
func sink(heads []*cursor, k int) {
	for {
		low := 2*k + 1
		if low >= len(heads) {
			return
		}
		if next := low + 1; next < len(heads) && before(&heads[next].v, &heads[low].v) {
			low = next
		}
		if !before(&heads[low].v, &heads[k].v) {
			return
		}
		heads[k], heads[low] = heads[low], heads[k]
		k = low
	}
}

// before orders by time, then by memory.
func before(v, w *label) bool {
	switch {
	case v.t != w.t:
		return v.t < w.t
	case v.b != w.b:
		return v.b < w.b
	case v.f != w.f:
		return v.f < w.f
	}
	return v.edge < w.edge
}

// line is a Lagrangian bound on the time of plans that end in a label, less the most that it may be: t + c + b·bwd + f·fwd.
type line struct{ c, bwd, fwd float64 }

// linesAt are the bounds of all multipliers at a node.
func (s *search) linesAt(i int) {
	s.lines = s.lines[:0]
	block, room := s.g.nodes[i].block, float64(s.g.room)
	for k, m := range s.all {
		l := line{c: m.prefix[i] - m.bwd[block]*room - s.limits[k], bwd: m.bwd[block]}
		if m.fwd != nil {
			l.fwd = m.fwd[block]
			l.c -= l.fwd * room
		}
		s.lines = append(s.lines, l)
	}
}

func (l *line) at(v *label) float64 {
	return float64(v.t) + l.c + l.bwd*float64(v.b) + l.fwd*float64(v.f)
}

// promising is false if a bound on the blocks before the node proves that the label cannot become a plan as fast as the
// known one.
func (s *search) promising(v *label) bool {
	for k := range s.lines {
		if s.lines[k].at(v) > 0 {
			return false
		}
	}
	return true
}

// narrow keeps labels of a node with low bounds, spread over its range of memory: of equal layers many labels have the same
// bound, and those alone would be one mix of options at many sizes. It always keeps the one that needs least.
func (s *search) narrow(i int) {
	list := s.kept
	need := func(v *label) int64 { return max(v.b+s.leastB[i], v.f+s.leastF[i]) }
	least := slices.MinFunc(list, func(v, w label) int { return cmp.Compare(need(&v), need(&w)) })
	score := func(v *label) float64 {
		worst := math.Inf(-1)
		for k := range s.lines[:min(3, len(s.lines))] {
			worst = max(worst, s.lines[k].at(v))
		}
		return worst
	}
	if s.timeless {
		score = func(v *label) float64 { return float64(need(v)) }
	}
	slices.SortFunc(list, func(v, w label) int {
		return cmp.Or(cmp.Compare(v.b, w.b), cmp.Compare(v.f, w.f), cmp.Compare(v.t, w.t))
	})
	s.kept = append(lowestOfGroups(list, s.width-1, score), least)
	slices.SortFunc(s.kept, func(v, w label) int {
		return cmp.Or(cmp.Compare(v.t, w.t), cmp.Compare(v.b, w.b), cmp.Compare(v.f, w.f))
	})
}

// lowestOfGroups splits a list into groups of neighbours and keeps the one with the lowest score of each, in place.
func lowestOfGroups(list []label, groups int, score func(*label) float64) []label {
	n := len(list)
	for g := range groups {
		from, end := g*n/groups, (g+1)*n/groups
		best, least := from, score(&list[from])
		for k := from + 1; k < end; k++ {
			if x := score(&list[k]); x < least {
				best, least = k, x
			}
		}
		list[g] = list[best]
	}
	return list[:groups]
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
