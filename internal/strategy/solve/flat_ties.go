package solve

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
)

// tieEffort bounds the partial plans that fewestChanges looks at. Chains of different blocks have few ties and stay
// far below it; where it is reached, the plan with sorted runs stands.
const tieEffort = 8000

// prefixLabel is the beginning of a plan as fast as the best one: what its steps keep and have held, in bytes, the top of
// their rows, their time in nanoseconds, the changes of option so far, and the option of the last step.
type prefixLabel struct {
	saved, savedFwd, held, top, t int64

	changes int
	last    int // name of the last option
	edge    *edge
	prev    int // index of the label before, at position from
	from    int
}

func (x *prefixLabel) within(y *prefixLabel) bool {
	return x.saved <= y.saved && x.savedFwd <= y.savedFwd && x.held <= y.held && x.top <= y.top && x.t <= y.t && x.changes <= y.changes
}

// need is the least memory above the base for a plan that begins with x and has at most time for the rest.
type need func(position int, x *prefixLabel, time int64) int64

func (s *search) need(i int, x *prefixLabel, time int64) int64 {
	// Labels get faster with memory.
	l, _ := slices.BinarySearchFunc(s.at[i], time, func(l label, time int64) int { return cmp.Compare(time, l.t) })
	if l == len(s.at[i]) {
		return math.MaxInt64
	}
	return max(x.top, x.saved+s.at[i][l].p)
}

func (s *vectorSearch) need(i int, x *prefixLabel, time int64) int64 {
	least := int64(math.MaxInt64)
	for k := range s.at[i] {
		if v := &s.at[i][k]; v.t <= time {
			least = min(least, x.held+v.a+max(x.top, x.saved+v.b, x.savedFwd+v.f))
		}
	}
	return least
}

// fewestChanges returns a plan with the time and peak of best and the fewest changes of option between neighbouring
// blocks. It walks the chain forward over partial plans that the labels of a search, which are complete up to the
// time of best, can finish in time and memory.
func fewestChanges(ctx context.Context, p *Problem, c *chain, finish need, best *Solution) *Solution {
	best = sortRuns(p, c, best)
	fewest := changes(p, best)
	if fewest == 0 {
		return best
	}
	room := best.Peak - p.Base
	names := p.optionNames(c)
	n := len(c.out)
	at := make([][]prefixLabel, n+1)
	at[0] = []prefixLabel{{last: -1}}
	effort := 0
	for i := range n {
		at[i] = undominatedPrefixes(at[i])
		for l, from := range at[i] {
			for k := range c.out[i] {
				e := &c.out[i][k]
				if effort++; effort > tieEffort || (effort&0xff == 0 && ctx.Err() != nil) {
					return best
				}
				next := prefixLabel{
					saved: from.saved + e.save, savedFwd: from.savedFwd + e.saveFwd, held: from.held + e.held,
					top: max(from.top, from.saved+e.row, from.savedFwd+e.rowFwd), t: from.t + e.time,
					changes: from.changes, last: names[i][k], edge: e, prev: l, from: i,
				}
				if i == n-1 {
					next.last = from.last // the head's options are not counted
				} else if from.last >= 0 && next.last != from.last {
					next.changes++
				}
				if next.changes >= fewest || finish(e.to, &next, best.Time-next.t) > room {
					continue
				}
				if !c.holds {
					next.top = 0 // it fits and nothing is added to it later
				}
				at[e.to] = append(at[e.to], next)
			}
		}
	}
	if len(at[n]) == 0 {
		return best
	}
	last := slices.MinFunc(at[n], func(x, y prefixLabel) int { return cmp.Compare(x.changes, y.changes) })
	var path []*edge
	for l := last; l.edge != nil; l = at[l.from][l.prev] {
		path = append(path, l.edge)
	}
	slices.Reverse(path)
	return sortRuns(p, c, best.replaced(p.solution(path)))
}

// replaced is found with what is proved about s, if it is no slower and needs no more; else s.
func (s *Solution) replaced(found *Solution) *Solution {
	if found.Peak > s.Peak || found.Time > s.Time {
		return s
	}
	found.Status, found.Bound, found.Closed, found.Dual, found.Stats = s.Status, s.Bound, s.Closed, s.Dual, s.Stats
	return found
}

// undominatedPrefixes drops labels that another with the same last option beats in memory, time and changes.
func undominatedPrefixes(list []prefixLabel) []prefixLabel {
	slices.SortStableFunc(list, func(x, y prefixLabel) int {
		return cmp.Or(cmp.Compare(x.last, y.last), cmp.Compare(x.changes, y.changes), cmp.Compare(x.saved, y.saved), cmp.Compare(x.t, y.t))
	})
	var kept []prefixLabel
	first := 0 // of the labels with the same last option
	for _, l := range list {
		if len(kept) > 0 && kept[len(kept)-1].last != l.last {
			first = len(kept)
		}
		if !slices.ContainsFunc(kept[first:], func(k prefixLabel) bool { return k.within(&l) }) {
			kept = append(kept, l)
		}
	}
	return kept
}

// optionNames numbers the options of every position so that equal labels have equal numbers. Options without a label
// are told apart by their index.
func (p *Problem) optionNames(c *chain) [][]int {
	numbers := map[string]int{}
	names := make([][]int, len(c.out))
	for i, edges := range c.out {
		for _, e := range edges {
			name := p.optionName(i, &e)
			if _, ok := numbers[name]; !ok {
				numbers[name] = len(numbers)
			}
			names[i] = append(names[i], numbers[name])
		}
	}
	return names
}

func (p *Problem) optionName(i int, e *edge) string {
	if i == len(p.Blocks) {
		return "head"
	}
	prefix, label := "", ""
	if e.segment >= 0 {
		prefix, label = "segment ", p.Segments[e.segment].Choices[e.choice].Label
	} else {
		label = p.Blocks[i].Choices[e.choice].Label
	}
	if label == "" {
		label = "option " + strconv.Itoa(e.choice)
	}
	return prefix + label
}

// changes counts the neighbouring steps whose options differ; the head does not count.
func changes(p *Problem, s *Solution) int {
	count, last := 0, ""
	at := 0
	taken := s.Segments
	for at < len(p.Blocks) {
		e := edge{segment: -1, choice: s.Choice[at], to: at + 1}
		if len(taken) > 0 && p.Segments[taken[0].Segment].First == at {
			e = edge{segment: taken[0].Segment, choice: taken[0].Choice, to: at + p.Segments[taken[0].Segment].Length}
			taken = taken[1:]
		}
		name := p.optionName(at, &e)
		if at > 0 && name != last {
			count++
		}
		at, last = e.to, name
	}
	return count
}

// sortRuns orders the options inside every run of blocks with equal menus and gradients by decreasing row − save, the
// order of least peak for a given number of each: what is recomputed comes first, what is kept last. It returns the
// result if it has no more changes and no higher peak.
func sortRuns(p *Problem, c *chain, s *Solution) *Solution {
	if len(s.Segments) > 0 {
		return s
	}
	sorted := slices.Clone(s.Choice)
	for i := 0; i < len(p.Blocks); {
		j := i + 1
		for j < len(p.Blocks) && p.Blocks[i].Grad == p.Blocks[j].Grad && slices.Equal(p.Blocks[i].Choices, p.Blocks[j].Choices) {
			j++
		}
		slices.SortStableFunc(sorted[i:j], func(x, y int) int {
			ex, ey := &c.out[i][x], &c.out[i][y]
			return cmp.Or(cmp.Compare(ey.row-ey.save, ex.row-ex.save), cmp.Compare(x, y))
		})
		i = j
	}
	t := *s
	t.Choice = sorted
	t.Peak, t.Time = p.Evaluate(&t)
	if changes(p, &t) <= changes(p, s) {
		return s.replaced(&t)
	}
	return s
}
