package solve

import (
	"cmp"
	"slices"
)

// longRun is the number of equal blocks from which their options are put in order before the search. Shorter runs have few
// labels without it.
const longRun = 128

// sorted is the graph without the plans that another of the same time makes superfluous: in a run of at least so many
// equal blocks, options come in one order. edges lists for every node those that matter.
//
// Two neighbours of a run, a before c, need max(p_a + g, s_a + p_c) above what comes before them and behind them, with g
// the gradient that each leaves. An exchange of c before a is no higher if
//
//	(s_c ≥ g or p_a ≤ p_c) and (s_a ≤ g or p_a − s_a ≥ p_c − s_c)
//
// which one order fulfils for all pairs: options with s ≤ g first, by rising p, then the others by falling p − s
// (Abdel-Wahab and Kameda, Scheduling to minimize maximum cumulative cost, 1978). Exchanges of neighbours sort a run, so that
// a sorted plan needs no more than any other with as many of each option, and takes as long. Where forward rows matter
// the order must fulfil the same for q, s + linger and g = 0; if it does not, the run stays as it is.
//
// A block of the run has one node for each option: those behind it may follow. It is for the bounds that this pays: what
// a label has at its block says which options are left before it.
func (g *graph) sorted(edges [][]int32, least int) *graph {
	out := &graph{room: g.room, forward: g.forward, blocks: g.blocks}
	n := len(g.nodes)
	orders := make([][]int32, n) // by node: the options of its run in order; nil outside of runs
	first := make([]int32, n+1)  // by node: its first one in out
	count := int32(0)
	for i := 0; i < n; {
		end := g.runEnd(i)
		var order []int32
		if end-i >= least {
			order = g.order(i, edges[i:end])
		}
		for at := i; at < end; at++ {
			orders[at], first[at] = order, count
			if order != nil && at > i {
				count += int32(len(order))
			} else {
				count++
			}
		}
		i = end
	}
	first[n] = count
	out.nodes = make([]node, 0, count)
	for i := range g.nodes {
		x := &g.nodes[i]
		if orders[i] == nil {
			y := node{block: x.block, edges: slices.Clone(x.edges)}
			for k := range y.edges {
				y.edges[k].to = first[y.edges[k].to]
			}
			out.nodes = append(out.nodes, y)
			continue
		}
		for level := range first[i+1] - first[i] {
			y := node{block: x.block, edges: make([]edge, 0, len(orders[i])-int(level))}
			for rank := int(level); rank < len(orders[i]); rank++ {
				e := x.edges[orders[i][rank]]
				to := first[i+1]
				if i+2 <= n && first[i+2]-first[i+1] > 1 { // in the same run
					to += int32(rank)
				}
				e.to = to
				y.edges = append(y.edges, e)
			}
			out.nodes = append(out.nodes, y)
		}
	}
	return out
}

// hasRun is true if there are so many equal blocks in a row.
func (g *graph) hasRun(least int) bool {
	for i := 0; i < len(g.nodes); {
		end := g.runEnd(i)
		if end-i >= least {
			return true
		}
		i = end
	}
	return false
}

// runEnd is the node behind the last of a run of equal blocks, all with one node.
func (g *graph) runEnd(i int) int {
	alone := func(at int) bool { // all edges of the node lead to the next one
		return !slices.ContainsFunc(g.nodes[at].edges, func(e edge) bool { return int(e.to) != at+1 })
	}
	end := i + 1
	if !alone(i) {
		return end
	}
	for end < len(g.nodes) && alone(end) && equalBlocks(g.nodes[i].edges, g.nodes[end].edges, int64(end-i)*g.left(i)) {
		end++
	}
	return end
}

// left is the gradient that the block behind a node's leaves, if the two are equal.
func (g *graph) left(i int) int64 {
	if i+1 == len(g.nodes) {
		return 0
	}
	return g.nodes[i].edges[0].row - g.nodes[i+1].edges[0].row
}

// equalBlocks is true if edges differ in nothing but the gradients of later blocks.
func equalBlocks(x, y []edge, gradients int64) bool {
	return slices.EqualFunc(x, y, func(a, b edge) bool {
		return a.choice == b.choice && a.save == b.save && a.saveFwd == b.saveFwd && a.rowFwd == b.rowFwd && a.time == b.time && a.row == b.row+gradients
	})
}

// order is the order of options in a run that begins at a node; nil if there is none.
func (g *graph) order(i int, worthwhile [][]int32) []int32 {
	x := g.nodes[i].edges
	left := g.left(i)
	var out []int32
	seen := make([]bool, len(x))
	for _, list := range worthwhile {
		for _, k := range list {
			if !seen[k] {
				seen[k] = true
				out = append(out, k)
			}
		}
	}
	slices.SortFunc(out, func(m, n int32) int {
		a, c := &x[m], &x[n]
		switch firstA, firstC := a.save <= left, c.save <= left; {
		case firstA && firstC:
			return cmp.Or(cmp.Compare(a.row, c.row), cmp.Compare(m, n))
		case firstA:
			return -1
		case firstC:
			return 1
		}
		return cmp.Or(cmp.Compare(c.row-c.save, a.row-a.save), cmp.Compare(m, n))
	})
	for n, k := range out {
		for _, l := range out[n+1:] {
			a, c := &x[k], &x[l]
			if !noHigher(a.save, a.row, c.save, c.row, left) || g.forward && !noHigher(a.saveFwd, a.rowFwd, c.saveFwd, c.rowFwd, 0) {
				return nil
			}
		}
	}
	return out
}

// noHigher is true if a before c needs no more than c before a; see sorted.
func noHigher(saveA, rowA, saveC, rowC, left int64) bool {
	return (saveC >= left || rowA <= rowC) && (saveA <= left || rowA-saveA >= rowC-saveC)
}

// on are the multipliers with paths of another graph of the same blocks.
func (m *multipliers) on(g *graph) *multipliers {
	r := &multipliers{bwd: m.bwd, fwd: m.fwd, prefix: make([]float64, len(g.nodes)+1)}
	r.walk(g, make([]*edge, len(g.nodes)+1), make([]int32, len(g.nodes)+1))
	return r
}
