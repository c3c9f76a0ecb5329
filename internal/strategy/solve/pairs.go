package solve

import (
	"cmp"
	"slices"
)

// manyBlocks is the number of blocks from which pairs are looked at. Fewer have few labels without that.
const manyBlocks = 64

// superfluous says for every node that a block and an equal one follow, by option of the first and of the second, which
// pairs no plan needs: those that another pair beats or equals in all that it keeps and needs, which takes less time, or as
// long with a first option that comes earlier in an order of the options. A product kept in each of two layers is such a
// pair if one of them can keep both for the same bytes. It is nil where blocks differ.
//
// A path that begins with a superfluous pair is no better than one with the other pair, and that one than one whose label
// is kept behind its first option. Each takes less time or has an earlier first option: so there are no circles, and the last
// path of the row begins with no superfluous pair.
func (g *graph) superfluous() [][][]bool {
	out := make([][][]bool, len(g.nodes))
	before := map[int]int{} // a node one equal block before
	for i := range g.nodes {
		j := g.next(i)
		if j >= len(g.nodes) || g.next(j) > len(g.nodes) {
			continue
		}
		x, y := g.nodes[i].edges, g.nodes[j].edges
		if !equalBlocks(x, y, x[0].row-y[0].row) {
			continue
		}
		before[j] = i
		if b, ok := before[i]; ok && g.nodes[b].edges[0].row-x[0].row == x[0].row-y[0].row {
			out[i] = out[b]
		} else {
			out[i] = superfluousPairs(x, y)
		}
	}
	return out
}

// next is the node that all edges of a node lead to: the number of nodes for the end, and beyond it if they lead to several.
func (g *graph) next(i int) int {
	if i >= len(g.nodes) {
		return i
	}
	to := g.nodes[i].edges[0].to
	if slices.ContainsFunc(g.nodes[i].edges, func(e edge) bool { return e.to != to }) {
		return len(g.nodes) + 1
	}
	return int(to)
}

// superfluousPairs is superfluous for two equal blocks.
func superfluousPairs(x, y []edge) [][]bool {
	type pair struct {
		first, second, rank              int
		time, save, saveFwd, row, rowFwd int64
	}
	order := make([]int, len(x)) // least need first: see sorted
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[b].row-x[b].save, x[a].row-x[a].save) })
	var pairs []pair
	for rank, k := range order {
		a := &x[k]
		for l := range y {
			c := &y[l]
			pairs = append(pairs, pair{
				k, l, rank, a.time + c.time, a.save + c.save, a.saveFwd + c.saveFwd,
				max(a.row, a.save+c.row), max(a.rowFwd, a.saveFwd+c.rowFwd),
			})
		}
	}
	slices.SortFunc(pairs, func(p, q pair) int { return cmp.Or(cmp.Compare(p.time, q.time), cmp.Compare(p.rank, q.rank)) })
	out := make([][]bool, len(x))
	for k := range out {
		out[k] = make([]bool, len(y))
	}
	var left []pair
	for _, q := range pairs {
		beaten := slices.ContainsFunc(left, func(p pair) bool {
			return (p.time < q.time || p.rank < q.rank) && p.save <= q.save && p.saveFwd <= q.saveFwd && p.row <= q.row && p.rowFwd <= q.rowFwd
		})
		if beaten {
			out[q.first][q.second] = true
		} else {
			left = append(left, q)
		}
	}
	return out
}
