package solve

import (
	"math"
	"slices"
)

// edge is an option of a block, or the head, as one step of a plan.
type edge struct {
	to      int32 // node behind the step
	choice  int32
	save    int64 // bytes kept until the step's backward, shared tensors that it is the first to hold included
	saveFwd int64 // bytes kept until the end of forward
	row     int64 // backward transient above what earlier steps keep, gradients of later blocks included
	rowFwd  int64 // forward transient above what earlier steps keep
	time    int64
}

// node is a position between two blocks together with the set of shared tensors that the blocks before it hold.
type node struct {
	block int32 // the block behind it; the number of blocks is the head
	edges []edge
}

// graph is a problem as a graph: a plan is a path from the first node over one edge a block and the head's to the end,
// which is no node of the list. Nodes are in order of their blocks.
type graph struct {
	nodes []node
	// room is Budget − Base.
	room int64
	// forward is true if some forward row can be above its block's backward row.
	forward bool
	blocks  int
}

// newGraph makes a node for every set of shared tensors that can be held at a block and matters behind it: a tensor that no
// later block can hold has been charged to its first holder.
func newGraph(p *Problem) *graph {
	n := len(p.Blocks)
	g := &graph{room: p.Budget - p.Base, blocks: n}
	after := make([]int64, n+1) // gradients of the blocks behind a block and of the head
	wanted := make([]uint32, n+1)
	ahead := make([]int64, n+1) // most by which the forward prefix can exceed the backward prefix at a block
	after[n] = p.HeadGrad
	for i := n - 1; i >= 0; i-- {
		after[i] = after[i+1] + p.Blocks[i].Grad
		wanted[i] = wanted[i+1]
		for k := range p.Blocks[i].Choices {
			wanted[i] |= p.Blocks[i].Choices[k].Holds
		}
	}
	for i := range n {
		most := int64(math.MinInt64)
		for k := range p.Blocks[i].Choices {
			most = max(most, p.Blocks[i].Choices[k].Linger)
		}
		ahead[i+1] = ahead[i] + most
	}
	sets := []uint32{0} // at the current block
	at := 0             // its first node
	for i := range n {
		next := make([]uint32, 0, len(sets))
		for _, held := range sets {
			choices := p.Blocks[i].Choices
			x := node{block: int32(i), edges: make([]edge, len(choices))}
			for k := range choices {
				c := &choices[k]
				first := p.sharedBytes(c.Holds &^ held)
				then := (held | c.Holds) & wanted[i+1]
				to := slices.Index(next, then)
				if to < 0 {
					to = len(next)
					next = append(next, then)
				}
				backward := c.Backward + first + after[i+1]
				g.forward = g.forward || c.Forward+ahead[i] > backward
				x.edges[k] = edge{
					to: int32(at + len(sets) + to), choice: int32(k), save: c.Save + first, saveFwd: c.Save + c.Linger,
					row: backward, rowFwd: c.Forward, time: c.Time,
				}
			}
			g.nodes = append(g.nodes, x)
		}
		at += len(sets)
		sets = next
	}
	// One set is left, the empty one: no tensor is wanted behind the last block.
	g.nodes = append(g.nodes, node{block: int32(n), edges: []edge{{to: int32(at + 1), row: p.HeadBackward, rowFwd: p.HeadForward}}})
	g.forward = g.forward || p.HeadForward+ahead[n] > p.HeadBackward
	return g
}

// leastPrefix returns for every node the least total of a size over the paths that lead to it.
func (g *graph) leastPrefix(size func(*edge) int64) []int64 {
	least := make([]int64, len(g.nodes)+1)
	for i := range least[1:] {
		least[i+1] = math.MaxInt64
	}
	for i := range g.nodes {
		for k := range g.nodes[i].edges {
			e := &g.nodes[i].edges[k]
			least[e.to] = min(least[e.to], least[i]+size(e))
		}
	}
	return least
}

// roundUp returns the graph with every size a multiple of the quantum, none smaller.
func (g *graph) roundUp(quantum int64) *graph {
	up := func(x int64) int64 {
		if rest := x % quantum; rest > 0 {
			return x + quantum - rest
		} else {
			return x - rest // of a negative size, towards 0
		}
	}
	r := *g
	r.nodes = slices.Clone(g.nodes)
	for i := range r.nodes {
		r.nodes[i].edges = slices.Clone(g.nodes[i].edges)
		for k := range r.nodes[i].edges {
			e := &r.nodes[i].edges[k]
			e.save, e.saveFwd, e.row, e.rowFwd = up(e.save), up(e.saveFwd), up(e.row), up(e.rowFwd)
		}
	}
	return &r
}
