package solve

import (
	"context"
	"math"
	"math/big"
)

// Dual is a Lagrangian certificate: multipliers on the rows of a problem, and the lower bound on time that they prove.
// Anyone can add it up again: with λ_i the multiplier of backward row i and ν_i of forward row i (i = n is the head),
//
//	LB = min Σ_i [ r_i + s_i·Σ_{l>i} λ_l + (s_i + linger_i)·Σ_{l>i} ν_l + h_i·Σ_{l≥i} λ_l + λ_i·(p_i + G_{>i} − R) + ν_i·(q_i − R) ]
//
// over the choice of an option for each block, with h_i the bytes of shared tensors that block i is the first to hold and
// R = Budget − Base, rounded up to whole nanoseconds, is not above the time of any choice that fits. Without shared
// tensors each block has its own minimum; with them it is a shortest path.
type Dual struct {
	// Backward and Forward hold λ and ν in nanoseconds per TiB (2^40 bytes), one per block and one for the head. Forward is
	// nil where no forward row has a multiplier.
	Backward, Forward []int64
	// Bound is LB in nanoseconds.
	Bound int64
}

// multipliers are Lagrange multipliers as sums over the rows from a block on, in nanoseconds per byte, with the length
// of the shortest path from the start to each node, and from each node to the end.
type multipliers struct {
	bwd, fwd       []float64 // fwd is nil where forward rows have none
	prefix, suffix []float64
}

// cost is what a step adds to the Lagrangian.
func (m *multipliers) cost(block int32, e *edge, room float64) float64 {
	w := m.bwd
	v := float64(e.time) + float64(e.save)*w[block+1] + (w[block]-w[block+1])*(float64(e.row)-room)
	if m.fwd != nil {
		f := m.fwd
		v += float64(e.saveFwd)*f[block+1] + (f[block]-f[block+1])*(float64(e.rowFwd)-room)
	}
	return v
}

// walk fills prefix, and best with the edge over which each node is reached at least cost, and returns the bound.
func (m *multipliers) walk(g *graph, best []*edge, from []int32) float64 {
	room := float64(g.room)
	for i := range m.prefix {
		m.prefix[i] = math.Inf(1)
	}
	m.prefix[0] = 0
	for i := range g.nodes {
		x := &g.nodes[i]
		for k := range x.edges {
			e := &x.edges[k]
			if d := m.prefix[i] + m.cost(x.block, e, room); d < m.prefix[e.to] {
				m.prefix[e.to] = d
				best[e.to], from[e.to] = e, int32(i)
			}
		}
	}
	return m.prefix[len(m.prefix)-1]
}

// worthwhile lists for every node the edges that a plan of at most upper nanoseconds can take: those for which no
// multipliers prove that all plans over them are slower (reduced-cost fixing). limits are, by multipliers, the most that
// the bound of such a plan may be.
func (g *graph) worthwhile(all []*multipliers, upper int64) (out [][]int32, limits []float64) {
	room := float64(g.room)
	for _, m := range all {
		if m.suffix == nil {
			m.fillSuffix(g)
		}
		limits = append(limits, m.ceiling(g, upper))
	}
	out = make([][]int32, len(g.nodes))
	count := 0
	for i := range g.nodes {
		count += len(g.nodes[i].edges)
	}
	flat := make([]int32, 0, count)
	for i := range g.nodes {
		x := &g.nodes[i]
		begin := len(flat)
		for k := range x.edges {
			e := &x.edges[k]
			slow := false
			for j, m := range all {
				slow = slow || m.prefix[i]+m.cost(x.block, e, room)+m.suffix[e.to] > limits[j]
			}
			if !slow {
				flat = append(flat, int32(k))
			}
		}
		out[i] = flat[begin:len(flat):len(flat)]
	}
	return out, limits
}

// fillSuffix walks backward.
func (m *multipliers) fillSuffix(g *graph) {
	n := len(g.nodes)
	m.suffix = make([]float64, n+1)
	for i := n - 1; i >= 0; i-- {
		x := &g.nodes[i]
		m.suffix[i] = math.Inf(1)
		for k := range x.edges {
			e := &x.edges[k]
			m.suffix[i] = min(m.suffix[i], m.cost(x.block, e, float64(g.room))+m.suffix[e.to])
		}
	}
}

// ceiling is upper with room for the rounding of float64 sums; times are whole nanoseconds.
func (m *multipliers) ceiling(g *graph, upper int64) float64 {
	if upper == math.MaxInt64 {
		return math.Inf(1)
	}
	all := m.bwd[0]
	if m.fwd != nil {
		all += m.fwd[0]
	}
	return float64(upper) + 0.25 + 1e-15*float64(g.blocks+2)*(float64(upper)+all*float64(max(g.room, -g.room)))
}

// dualSearch looks for multipliers with a high bound: first one for the last backward row only, by bisection on the sign
// of that row's slack, then one for every backward row by subgradient steps, and where the plan that these find least
// costly needs more in forward than in backward, for every forward row as well. upper is the time of a known plan. It
// returns the best multipliers found followed by a few near ones, which bound labels in the middle of the chain better.
func dualSearch(ctx context.Context, g *graph, upper int64) ([]*multipliers, error) {
	n := g.blocks + 1
	s := &subgradient{
		ctx: ctx, g: g, edges: make([]*edge, len(g.nodes)+1), from: make([]int32, len(g.nodes)+1),
		back: make([]float64, n), front: make([]float64, n),
	}
	var all []*multipliers
	lambda := s.lastRowMultiplier()
	for _, f := range []float64{1, 0.8, 1.25, 0.6, 1.6, 0.4} {
		all = append(all, s.lastRowOnly(lambda*f))
	}
	bound := all[0].prefix[len(g.nodes)]
	refined, better := s.climb(all[0], bound, float64(upper), backwardSteps, false)
	if better > bound {
		all = append([]*multipliers{refined}, all...)
		bound = better
	}
	if g.forward && s.forwardBinds(all[0]) {
		refined, better = s.climb(all[0], bound, float64(upper), forwardSteps, true)
		if better > bound {
			all = append([]*multipliers{refined}, all...)
			for _, by := range [][2]float64{{1.05, 0.95}, {0.95, 1.05}, {1.15, 0.85}, {0.85, 1.15}, {1.1, 1.1}, {0.9, 0.9}, {1.25, 1.25}, {0.75, 0.75}} {
				all = append(all, s.scaled(refined, by[0], by[1]))
			}
		}
	}
	return all, ctx.Err()
}

// scaled is multipliers with those of backward and forward rows changed in proportion: what labels in the middle of the
// chain have used of the two differs.
func (s *subgradient) scaled(m *multipliers, bwd, fwd float64) *multipliers {
	r := s.fresh(true)
	for i := range m.bwd {
		r.bwd[i], r.fwd[i] = m.bwd[i]*bwd, m.fwd[i]*fwd
	}
	r.walk(s.g, s.edges, s.from)
	return r
}

// Steps of dualSearch. With one kind of row the first multiplier is nearly right; with more, they move between rows.
const (
	backwardSteps = 120
	forwardSteps  = 600
)

// subgradient holds the buffers of dualSearch.
type subgradient struct {
	ctx         context.Context
	g           *graph
	edges       []*edge
	from        []int32
	back, front []float64 // slack of each row: used − room
	path        []*edge
}

func (s *subgradient) fresh(forward bool) *multipliers {
	n := s.g.blocks + 2
	m := &multipliers{bwd: make([]float64, n), prefix: make([]float64, len(s.g.nodes)+1)}
	if forward {
		m.fwd = make([]float64, n)
	}
	return m
}

// lastRowOnly has a multiplier for the head's backward row alone.
func (s *subgradient) lastRowOnly(lambda float64) *multipliers {
	m := s.fresh(false)
	for i := range len(m.bwd) - 1 {
		m.bwd[i] = lambda
	}
	m.walk(s.g, s.edges, s.from)
	return m
}

// lastRowMultiplier finds the multiplier at which the last row's use crosses the room.
func (s *subgradient) lastRowMultiplier() float64 {
	over := func(lambda float64) bool {
		s.lastRowOnly(lambda)
		s.slack()
		return s.back[len(s.back)-1] > 0 && s.ctx.Err() == nil
	}
	if !over(0) {
		return 0
	}
	lo, hi := 0.0, 1e-6
	for over(hi) && hi < 1e15 {
		lo, hi = hi, hi*8
	}
	for range 32 { // to nine digits
		if mid := (lo + hi) / 2; over(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// slack computes used − room of every row for the path of the last walk.
func (s *subgradient) slack() {
	s.path = s.path[:0]
	for at := int32(len(s.g.nodes)); at > 0; at = s.from[at] {
		s.path = append(s.path, s.edges[at])
	}
	var saved, savedFwd float64
	room := float64(s.g.room)
	for k := range s.path {
		e := s.path[len(s.path)-1-k]
		s.back[k] = saved + float64(e.row) - room
		s.front[k] = savedFwd + float64(e.rowFwd) - room
		saved += float64(e.save)
		savedFwd += float64(e.saveFwd)
	}
}

// forwardBinds is true if the path that costs least under some multipliers needs more in forward than there is room for,
// and than it does in backward.
func (s *subgradient) forwardBinds(m *multipliers) bool {
	m.walk(s.g, s.edges, s.from)
	s.slack()
	over, most := 0.0, 0.0
	for k := range s.back {
		over, most = max(over, s.back[k]), max(most, s.front[k])
	}
	return most > over
}

// climb raises the bound by the volume algorithm (Barahona and Anbil 2000): steps from the best multipliers found so far
// along a moving average of the rows' slacks, which tends to the slacks of a fractional optimal plan. The step length
// is Polyak's, towards upper. The numbers that steer it (how fast a step grows and shrinks, how old slacks fade) are
// choices: any multipliers give a valid bound.
func (s *subgradient) climb(start *multipliers, bound, upper float64, steps int, forward bool) (*multipliers, float64) {
	n := s.g.blocks + 1
	rows := n // backward rows, then forward rows
	if forward {
		rows = 2 * n
	}
	center, trial, average := make([]float64, rows), make([]float64, rows), make([]float64, rows)
	slack := func(i int) float64 {
		if i < n {
			return s.back[i]
		}
		return s.front[i-n]
	}
	start.walk(s.g, s.edges, s.from)
	s.slack()
	for i := range rows {
		average[i] = slack(i)
		if i < n {
			center[i] = start.bwd[i] - start.bwd[i+1]
		}
	}
	best, now := start, s.fresh(forward)
	factor, mix, stale := 0.5, 0.2, 0
	for k := range steps {
		var norm float64
		for i := range rows {
			if center[i] > 0 || average[i] > 0 {
				norm += average[i] * average[i]
			}
		}
		if norm == 0 || upper-bound < 1e-3 || factor < 1e-5 || s.ctx.Err() != nil {
			break
		}
		length := factor * (upper - bound) / norm
		for i := range rows {
			trial[i] = max(0, center[i]+length*average[i])
		}
		var w, v float64
		for i := n - 1; i >= 0; i-- {
			w += trial[i]
			now.bwd[i] = w
			if forward {
				v += trial[n+i]
				now.fwd[i] = v
			}
		}
		value := now.walk(s.g, s.edges, s.from)
		s.slack()
		for i := range rows {
			average[i] += mix * (slack(i) - average[i])
		}
		switch stale++; {
		case value > bound:
			if value > bound+1e-3*(upper-bound) {
				factor, stale = min(2, factor*1.2), 0
			}
			bound = value
			best, now = now, s.fresh(forward)
			copy(center, trial)
		case stale > 8:
			factor, stale = factor*0.7, 0
		}
		if k%40 == 39 {
			mix = max(0.02, mix*0.7)
		}
	}
	return best, bound
}

// tib is the scale of exported multipliers: bytes in a TiB.
const tib = 1 << 40

// dual rounds multipliers to whole nanoseconds per TiB and adds the bound up exactly.
func (g *graph) dual(m *multipliers) Dual {
	n := g.blocks + 1
	export := func(sums []float64) []int64 {
		rows := make([]int64, n)
		for i := range rows {
			rows[i] = int64(min(math.Round(max(0, sums[i]-sums[i+1])*tib), math.MaxInt64/float64(4*n)))
		}
		return rows
	}
	d := Dual{Backward: export(m.bwd)}
	if m.fwd != nil {
		d.Forward = export(m.fwd)
	}
	d.Bound = g.addUp(d)
	return d
}

// addUp is the bound of given multipliers, in exact arithmetic, rounded up to whole nanoseconds and never negative: extra
// times are not.
func (g *graph) addUp(d Dual) int64 {
	sums := func(rows []int64) []int64 {
		w := make([]int64, g.blocks+2)
		for i := len(rows) - 1; i >= 0; i-- {
			w[i] = w[i+1] + rows[i]
		}
		return w
	}
	w, f := sums(d.Backward), sums(d.Forward)
	var t, x, y big.Int
	addProduct := func(a, b int64) {
		if a != 0 && b != 0 {
			t.Add(&t, x.Mul(x.SetInt64(a), y.SetInt64(b)))
		}
	}
	least := make([]*big.Int, len(g.nodes)+1)
	least[0] = new(big.Int)
	for i := range g.nodes {
		b := g.nodes[i].block
		for k := range g.nodes[i].edges {
			e := &g.nodes[i].edges[k]
			t.Set(least[i])
			addProduct(e.time, tib)
			addProduct(e.save, w[b+1])
			addProduct(w[b]-w[b+1], e.row-g.room)
			addProduct(e.saveFwd, f[b+1])
			addProduct(f[b]-f[b+1], e.rowFwd-g.room)
			if least[e.to] == nil {
				least[e.to] = new(big.Int).Set(&t)
			} else if t.Cmp(least[e.to]) < 0 {
				least[e.to].Set(&t)
			}
		}
	}
	t.Add(least[len(g.nodes)], big.NewInt(tib-1)).Rsh(&t, 40) // Rsh rounds towards minus infinity
	if t.Sign() < 0 {
		return 0
	}
	if !t.IsInt64() {
		return math.MaxInt64
	}
	return t.Int64()
}

// LowerBound adds a certificate's bound up again from its multipliers and the problem's numbers, in exact arithmetic.
func (p *Problem) LowerBound(d Dual) int64 { return newGraph(p).addUp(d) }

// BestBound is the better of two vectors of multipliers on the problem without what is shared, each block's minimum apart:
// the solution's, and those that a search finds. The solution's may be of another problem, with higher rows. Shared
// tensors only add bytes, so that any multipliers bound every plan.
func (p *Problem) BestBound(ctx context.Context, s *Solution) (Dual, error) {
	q := *p
	q.Blocks = make([]Block, len(p.Blocks))
	for i, b := range p.Blocks {
		q.Blocks[i] = Block{Grad: b.Grad, Choices: append([]Choice(nil), b.Choices...)}
		for k := range b.Choices {
			q.Blocks[i].Choices[k].Holds = 0
		}
	}
	g := newGraph(&q)
	best := s.Dual
	best.Bound = g.addUp(best)
	all, err := dualSearch(ctx, g, s.Time)
	if err != nil {
		return best, err
	}
	if found := g.dual(all[0]); found.Bound > best.Bound {
		best = found
	}
	return best, nil
}
