package solve

import (
	"math"
	"math/big"
)

// Dual is a Lagrangian certificate: prices of memory on the rows of a problem, and the lower bound on time that they
// prove. Anyone can add it up again: with λ_i the price of backward row i and ν_i of forward row i (i = n is the head),
//
//	LB = Σ_i min_k [ r_ik + s_ik·Σ_{l>i} λ_l + (s_ik + linger_ik)·Σ_{l>i} ν_l + waiting_i·s_ik·Σ_l (λ_l + ν_l)
//	                 + λ_i·(p_ik + G_{>i} − R) + ν_i·(q_ik − R) ],    R = Budget − Base
//
// rounded up to whole nanoseconds, is not above the time of any choice that fits. A segment is an alternative to its
// blocks' minima: its rows take the sum of the prices over its blocks (the minimum then is a shortest path).
type Dual struct {
	// Backward and Forward hold λ and ν in nanoseconds per TiB (2^40 bytes), one per block and one for the head.
	// Without Forward the rows are merged: p_ik + G_{>i} stands for max(p_ik + G_{>i}, q_ik + Σ_{j<i} linger_j),
	// where the last sum is the same for every choice.
	Backward, Forward []int64
	// Bound is LB in nanoseconds.
	Bound int64
}

// prices are Lagrange multipliers as sums over the rows from a position on, in nanoseconds per byte, with the length
// of the shortest priced path from the start to each position, and from each position to the end.
type prices struct {
	bwd, fwd       []float64
	prefix, suffix []float64
}

// cost is what an edge adds to the Lagrangian.
func (m *prices) cost(i int, e *edge, room float64) float64 {
	w := m.bwd
	v := float64(e.time) + float64(e.save)*w[e.to] + (w[i]-w[e.to])*(float64(e.row)-room)
	if m.fwd != nil {
		f := m.fwd
		v += float64(e.saveFwd)*f[e.to] + (f[i]-f[e.to])*(float64(e.rowFwd)-room) + float64(e.held)*(w[0]+f[0])
	}
	return v
}

// walk fills prefix, and best with the edge over which each position is reached at least cost, and returns the bound.
func (m *prices) walk(c *chain, best []*edge, from []int) float64 {
	room := float64(c.room)
	for i := range m.prefix {
		m.prefix[i] = math.Inf(1)
	}
	m.prefix[0] = 0
	for i, edges := range c.out {
		for k := range edges {
			e := &edges[k]
			if d := m.prefix[i] + m.cost(i, e, room); d < m.prefix[e.to] {
				m.prefix[e.to] = d
				best[e.to], from[e.to] = e, i
			}
		}
	}
	return m.prefix[len(m.prefix)-1]
}

// worthwhile lists for every position the edges that a plan of at most upper nanoseconds can take: those for which no
// price proves that all plans over them are slower (reduced-cost fixing). limits are, by prices, the most that the bound
// of such a plan may be.
func (c *chain) worthwhile(all []*prices, upper int64) (out [][]int32, limits []float64) {
	room := float64(c.room)
	for _, m := range all {
		if m.suffix == nil {
			m.fillSuffix(c)
		}
		limits = append(limits, m.ceiling(c, upper))
	}
	out = make([][]int32, len(c.out))
	for i, edges := range c.out {
		out[i] = make([]int32, 0, len(edges))
		for k := range edges {
			e := &edges[k]
			slow := false
			for j, m := range all {
				slow = slow || m.prefix[i]+m.cost(i, e, room)+m.suffix[e.to] > limits[j]
			}
			if !slow {
				out[i] = append(out[i], int32(k))
			}
		}
	}
	return out, limits
}

// fillSuffix walks backward.
func (m *prices) fillSuffix(c *chain) {
	n := len(c.out)
	m.suffix = make([]float64, n+1)
	for i := n - 1; i >= 0; i-- {
		m.suffix[i] = math.Inf(1)
		for k := range c.out[i] {
			e := &c.out[i][k]
			m.suffix[i] = min(m.suffix[i], m.cost(i, e, float64(c.room))+m.suffix[e.to])
		}
	}
}

// ceiling is upper with room for the rounding of float64 sums of prices; times are whole nanoseconds.
func (m *prices) ceiling(c *chain, upper int64) float64 {
	if upper == math.MaxInt64 {
		return math.Inf(1)
	}
	all := m.bwd[0]
	if m.fwd != nil {
		all += m.fwd[0]
	}
	return float64(upper) + 0.25 + 1e-15*float64(len(c.out)+1)*(float64(upper)+all*float64(max(c.room, -c.room)))
}

// dualSearch looks for prices with a high bound: first one price for the last row only, by bisection on the sign of
// that row's slack, then a price for every row by subgradient steps. upper is the time of a known plan. It returns
// the best prices found followed by a few near ones, which bound labels in the middle of the chain better.
func dualSearch(c *chain, upper int64) (all []*prices, best float64) {
	n := len(c.out) // positions 0…n; rows 0…n−1
	s := &subgradient{c: c, edges: make([]*edge, n+1), from: make([]int, n+1), back: make([]float64, n), front: make([]float64, n)}
	lambda := s.lastRowPrice()
	for _, f := range []float64{1, 0.8, 1.25, 0.6, 1.6, 0.4} {
		all = append(all, s.lastRowOnly(lambda*f))
	}
	head, bound := all[0], all[0].prefix[n]
	steps := singleSteps
	if !c.single {
		steps = vectorSteps
	}
	refined, better := s.climb(head, bound, float64(upper), steps)
	if better > bound {
		all = append([]*prices{refined}, all...)
		bound = better
	}
	if !c.single {
		for _, by := range [][2]float64{{1.05, 0.95}, {0.95, 1.05}, {1.15, 0.85}, {0.85, 1.15}, {1.1, 1.1}, {0.9, 0.9}, {1.25, 1.25}, {0.75, 0.75}} {
			all = append(all, s.scaled(refined, by[0], by[1]))
		}
	}
	return all, bound
}

// scaled is prices with those of backward and forward rows multiplied: what labels in the middle of the chain have
// used of the two differs.
func (s *subgradient) scaled(m *prices, bwd, fwd float64) *prices {
	r := s.fresh()
	for i := range m.bwd {
		r.bwd[i], r.fwd[i] = m.bwd[i]*bwd, m.fwd[i]*fwd
	}
	r.walk(s.c, s.edges, s.from)
	return r
}

// Steps of dualSearch. With one kind of row the first price is nearly right; with more, prices move between them.
const (
	singleSteps = 120
	vectorSteps = 600
)

// subgradient holds the buffers of dualSearch.
type subgradient struct {
	c           *chain
	edges       []*edge
	from        []int
	back, front []float64 // slack of each row: used − room
	path        []int
}

func (s *subgradient) fresh() *prices {
	n := len(s.c.out)
	m := &prices{bwd: make([]float64, n+1), prefix: make([]float64, n+1)}
	if !s.c.single {
		m.fwd = make([]float64, n+1)
	}
	return m
}

// lastRowOnly prices the head's backward row alone.
func (s *subgradient) lastRowOnly(lambda float64) *prices {
	m := s.fresh()
	for i := range len(m.bwd) - 1 {
		m.bwd[i] = lambda
	}
	m.walk(s.c, s.edges, s.from)
	return m
}

// lastRowPrice finds the price at which the last row's use crosses the room.
func (s *subgradient) lastRowPrice() float64 {
	over := func(lambda float64) bool {
		s.lastRowOnly(lambda)
		s.slack()
		return s.back[len(s.back)-1] > 0
	}
	if !over(0) {
		return 0
	}
	lo, hi := 0.0, 1e-6
	for over(hi) && hi < 1e15 {
		lo, hi = hi, hi*8
	}
	for range 32 { // a price to nine digits
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
	n := len(s.c.out)
	s.path = s.path[:0]
	for at := n; at > 0; at = s.from[at] {
		s.path = append(s.path, at)
	}
	path := s.path
	var saved, savedFwd, held float64
	for k := len(path) - 1; k >= 0; k-- {
		held += float64(s.edges[path[k]].held)
	}
	room := float64(s.c.room)
	for k := len(path) - 1; k >= 0; k-- {
		e := s.edges[path[k]]
		for l := s.from[e.to]; l < e.to; l++ {
			s.back[l] = held + saved + float64(e.row) - room
			s.front[l] = held + savedFwd + float64(e.rowFwd) - room
		}
		saved += float64(e.save)
		savedFwd += float64(e.saveFwd)
	}
}

// climb raises the bound by the volume algorithm (Barahona and Anbil 2000): steps from the best prices found so far
// along a moving average of the rows' slacks, which tends to the slacks of a fractional optimal plan. The step length
// is Polyak's, towards upper.
func (s *subgradient) climb(start *prices, bound, upper float64, steps int) (*prices, float64) {
	n := len(s.c.out)
	rows := 2 * n // backward rows, then forward rows
	if start.fwd == nil {
		rows = n
	}
	center, trial, average := make([]float64, rows), make([]float64, rows), make([]float64, rows)
	slack := func(i int) float64 {
		if i < n {
			return s.back[i]
		}
		return s.front[i-n]
	}
	start.walk(s.c, s.edges, s.from)
	s.slack()
	for i := range rows {
		average[i] = slack(i)
		if i < n {
			center[i] = start.bwd[i] - start.bwd[i+1]
		} else {
			center[i] = start.fwd[i-n] - start.fwd[i-n+1]
		}
	}
	best, now := start, s.fresh()
	factor, mix, stale := 0.5, 0.2, 0
	for k := range steps {
		var norm float64
		for i := range rows {
			if center[i] > 0 || average[i] > 0 {
				norm += average[i] * average[i]
			}
		}
		if norm == 0 || upper-bound < 1e-3 || factor < 1e-5 {
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
			if now.fwd != nil {
				v += trial[n+i]
				now.fwd[i] = v
			}
		}
		value := now.walk(s.c, s.edges, s.from)
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
			best, now = now, s.fresh()
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

// tib is the scale of exported prices: bytes in a TiB.
const tib = 1 << 40

// dual rounds prices to whole nanoseconds per TiB and adds the bound up exactly.
func (c *chain) dual(m *prices) Dual {
	n := len(c.out)
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
	d.Bound = c.addUp(d)
	return d
}

// addUp is the bound of given prices, in exact arithmetic, rounded up to whole nanoseconds and never negative: extra
// times are not.
func (c *chain) addUp(d Dual) int64 {
	n := len(c.out)
	sums := func(rows []int64) []int64 {
		w := make([]int64, n+1)
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
	least := make([]*big.Int, n+1)
	least[0] = new(big.Int)
	for i, edges := range c.out {
		for k := range edges {
			e := &edges[k]
			t.Set(least[i])
			addProduct(e.time, tib)
			addProduct(e.save, w[e.to])
			addProduct(w[i]-w[e.to], e.row-c.room)
			addProduct(e.saveFwd, f[e.to])
			addProduct(f[i]-f[e.to], e.rowFwd-c.room)
			addProduct(e.held, w[0]+f[0])
			if least[e.to] == nil {
				least[e.to] = new(big.Int).Set(&t)
			} else if t.Cmp(least[e.to]) < 0 {
				least[e.to].Set(&t)
			}
		}
	}
	t.Add(least[n], big.NewInt(tib-1)).Rsh(&t, 40) // Rsh rounds towards minus infinity
	if t.Sign() < 0 {
		return 0
	}
	if !t.IsInt64() {
		return math.MaxInt64
	}
	return t.Int64()
}

// LowerBound adds a certificate's bound up again from its prices and the problem's numbers, in exact arithmetic.
func (p *Problem) LowerBound(d Dual) int64 {
	c := newChain(p)
	if d.Forward == nil {
		c.merge()
	}
	return c.addUp(d)
}
