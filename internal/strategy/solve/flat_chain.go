package solve

import (
	"math"
	"slices"
)

// edge is one step of the chain: an option of the block at a position, a segment that starts there, or an option of
// the head. Positions 0…n are the block boundaries; the head leads from n to n+1.
type edge struct {
	to      int
	save    int64 // bytes kept until the step's backward
	saveFwd int64 // bytes kept until the end of forward
	row     int64 // backward transient above what earlier steps keep, gradients of later blocks included
	rowFwd  int64 // forward transient above what earlier steps keep
	held    int64 // bytes that waiting micro batches hold all the time
	time    int64
	choice  int // index of the option
	segment int // index of the segment, or −1
}

// chain is a problem as a graph of edges between positions; a plan is a path from 0 to n+1.
type chain struct {
	out [][]edge // by starting position
	// room is Budget − Base.
	room int64
	// single is true if one memory number per label suffices: nothing is held by waiting micro batches and the
	// forward prefix differs from the backward prefix by an amount that no choice changes. row then is the larger of
	// both rows, the forward one shifted by that amount.
	single bool
	// holds is true if waiting micro batches hold anything.
	holds bool
}

// newChain prices every edge.
func newChain(p *Problem) *chain {
	n := len(p.Blocks)
	c := &chain{out: make([][]edge, n+1), room: p.Budget - p.Base}
	after := make([]int64, n+1) // gradients of the blocks from a position on and of the head
	after[n] = p.HeadGrad
	for i := n - 1; i >= 0; i-- {
		after[i] = after[i+1] + p.Blocks[i].Grad
	}
	add := func(from, to, segment int, choices []Choice) {
		c.out[from] = slices.Grow(c.out[from], len(choices))
		for k, o := range choices {
			held := p.Blocks[from].Waiting * o.Save
			c.holds = c.holds || held != 0
			c.out[from] = append(c.out[from], edge{
				to: to, save: o.Save, saveFwd: o.Save + o.Linger, row: o.Backward + after[to], rowFwd: o.Forward,
				held: held, time: o.Time, choice: k, segment: segment,
			})
		}
	}
	for i, b := range p.Blocks {
		add(i, i+1, -1, b.Choices)
	}
	for i, s := range p.Segments {
		add(s.First, s.First+s.Length, i, s.Choices)
	}
	head := p.Head
	if len(head) == 0 {
		head = []Choice{{}}
	}
	for k, o := range head {
		c.out[n] = append(c.out[n], edge{to: n + 1, row: o.Backward, rowFwd: o.Forward, time: o.Time, choice: k, segment: -1})
	}
	return c
}

// merge folds the forward rows into the backward rows if saveFwd − save is the difference of a number per position
// and nothing is held; it reports whether the chain now is single.
func (c *chain) merge() bool {
	shift := make([]int64, len(c.out)+1) // F_i − A_i
	known := make([]bool, len(c.out)+1)
	if c.holds {
		return false
	}
	for i, edges := range c.out {
		for _, e := range edges {
			s := shift[i] + e.saveFwd - e.save
			if known[e.to] && shift[e.to] != s {
				return false
			}
			shift[e.to], known[e.to] = s, true
		}
	}
	for i, edges := range c.out {
		for k := range edges {
			edges[k].row = max(edges[k].row, edges[k].rowFwd+shift[i])
		}
	}
	c.single = true
	return true
}

// dropForward forgets the forward rows: a relaxation, whose optimum is the chain's own if it meets them anyway. It
// reports whether the chain now is single.
func (c *chain) dropForward() bool {
	if c.holds {
		return false
	}
	c.single = true
	return true
}

// leastPrefix returns for every position the least total of a size over the paths that lead to it.
func (c *chain) leastPrefix(size func(*edge) int64) []int64 {
	least := make([]int64, len(c.out)+1)
	for i := range least[1:] {
		least[i+1] = math.MaxInt64
	}
	for i, edges := range c.out {
		for k := range edges {
			e := &edges[k]
			least[e.to] = min(least[e.to], least[i]+size(e))
		}
	}
	return least
}

// solution turns a path into a solution with the peak and time that Problem.Evaluate finds.
func (p *Problem) solution(path []*edge) *Solution {
	s := &Solution{Choice: make([]int, len(p.Blocks))}
	for i := range s.Choice {
		s.Choice[i] = -1
	}
	at := 0
	for _, e := range path {
		switch {
		case at == len(p.Blocks):
			s.Head = e.choice
		case e.segment >= 0:
			s.Segments = append(s.Segments, SegmentChoice{e.segment, e.choice})
		default:
			s.Choice[at] = e.choice
		}
		at = e.to
	}
	s.Peak, s.Time = p.Evaluate(s)
	return s
}
