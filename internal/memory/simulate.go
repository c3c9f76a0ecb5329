package memory

import "ckptplan/internal/model/graph"

// machine walks a schedule. Level 0 is the forward pass; a region of depth d is recomputed at level d, where its
// tensors live a second time.
type machine struct {
	s        *Schedule
	p        *Program
	g        *graph.Graph
	ids      Buffers
	at       Instant // now
	peak     *Instant
	res      *StepResult
	observer Observer // or nil
	batches  []microBatch
	micro    *microBatch // whose pass it is
	block    int32       // of the chain
	calls    []call      // innermost last
	done     []bool      // by region: recomputed in this backward
	grad     []ID        // by parameter: the buffer of its gradient + 1
	taken    []ID        // random states that recomputes have taken
	hasState bool        // the optimizer's state exists

	// gradBytes are the bytes of all gradients, paramGrads of those that have arrived at a parameter.
	gradBytes, paramGrads int64

	host int64
	cost *costs
	time Times
	// flights are copies to the host that are not done, in order; linkFree is when the link has finished all copies so
	// far; back says, by region, when its copies are on the device again (−1: not asked for).
	flights  []flight
	linkFree int64
	back     []int64
}

// microBatch is what a micro batch holds between its forward and the end of its backward.
type microBatch struct {
	base  ID
	refs  [][]int32 // by level and storage
	cache [][]bool  // by level: the instance is a cached output of level 0
}

func newMachine(s *Schedule) *machine {
	m := &machine{
		s: s, p: s.Program, g: s.Program.Graph, ids: *s.Buffers(), res: &StepResult{}, done: make([]bool, len(s.Regions)), grad: make([]ID, len(s.Program.Graph.Params)),
	}
	m.peak = &m.res.Peak[Forward]
	m.batches = make([]microBatch, m.ids.batches)
	for i := range m.batches {
		m.batches[i].base = ID(int32(i) * m.ids.perBatch)
	}
	return m
}

// construct allocates what exists before the first step: parameters, buffers and inputs.
func (m *machine) construct() {
	m.at.Op = graph.None
	for _, st := range m.p.static {
		s := &m.g.Storages[st]
		m.alloc(m.ids.storage(0, st, 0), s.Bytes, s.Name)
	}
}

// prepare makes the tables of a micro batch on its first forward.
func (b *microBatch) prepare(m *machine) {
	if b.refs != nil {
		return
	}
	b.cache = make([][]bool, m.ids.levels)
	for range m.ids.levels {
		b.refs = append(b.refs, make([]int32, m.ids.storages))
	}
}

// level is where a storage's instance lives as region r sees it: the innermost enclosing region that makes it.
func (m *machine) level(st graph.StorageID, r int32) int32 {
	born := m.g.Storages[st].Born
	for ; r >= 0; r = m.s.Regions[r].Parent {
		reg := &m.s.Regions[r]
		if reg.HostSaved {
			continue
		}
		if born >= reg.First || containsStorage(reg.Sent, st) || containsStorage(reg.Recast, st) {
			return reg.Depth
		}
	}
	return 0
}

func containsStorage(s []graph.StorageID, x graph.StorageID) bool {
	for _, y := range s {
		if x == y {
			return true
		}
	}
	return false
}

func (m *machine) hold(st graph.StorageID, lv int32) { m.micro.refs[lv][st]++ }

func (m *machine) release(st graph.StorageID, lv int32) {
	r := &m.micro.refs[lv][st]
	if *r--; *r > 0 {
		return
	}
	if *r < 0 {
		panic(invariant("storage " + m.g.Storages[st].Name + " freed twice"))
	}
	if c := m.micro.cache[lv]; c != nil && c[st] {
		c[st] = false
		m.release(st, 0)
		return
	}
	m.free(m.ids.storage(m.micro.base, st, lv), m.g.Storages[st].Bytes)
}

// run executes ops first…end−1 inside region r (−1: the forward pass itself) at level lv; stop is the op at which a
// recompute ends early, before or after it runs.
func (m *machine) run(r int32, first, end graph.OpID, lv int32, stop graph.OpID, stopRuns bool) {
	stores := m.g.Storages
	refs := m.micro.refs[lv]
	base := m.ids.storage(m.micro.base, 0, lv)
	for i := first; i < end; i++ {
		if b := m.g.Ops[i].Block; lv == 0 && b != m.block {
			m.land(b)
			m.enterBlock(b)
		}
		if len(m.calls) > 0 {
			m.endCalls(i)
		}
		own := m.s.Owner[i]
		if own != r && own >= 0 {
			m.enter(i, r, own)
		}
		e := &m.p.ops[i]
		if i == stop && !stopRuns {
			if own == r {
				m.save(e, own, r, lv)
			}
			break
		}
		m.at.Op = i
		cached := lv > 0 && m.s.Regions[r].Cached[i]
		away := lv == 0 && own >= 0 && m.s.Regions[own].HostSaved
		if away {
			m.pack(e, false)
		}
		for st := e.alloc; st < e.allocEnd; st++ {
			refs[st] = 1
			if !cached {
				m.alloc(base+ID(st), stores[st].Bytes, stores[st].Name)
				continue
			}
			if m.micro.cache[lv] == nil {
				m.micro.cache[lv] = make([]bool, len(stores))
			}
			m.micro.cache[lv][st] = true
		}
		if away {
			m.pack(e, true)
		}
		if m.cost != nil && !cached {
			m.spend(i)
		}
		if own == r || own >= 0 && m.s.Regions[own].HostSaved {
			m.save(e, own, r, lv)
		}
		if lv == 0 && own >= 0 && m.s.Regions[own].Cached[i] {
			for st := e.alloc; st < e.allocEnd; st++ {
				refs[st]++
			}
		}
		if i == stop {
			break
		}
		for _, st := range m.p.drops[e.drop:e.dropEnd] {
			if stores[st].Born >= first {
				m.release(st, lv)
			}
		}
	}
	m.endCalls(graph.None)
}

// save takes references for what autograd keeps of one op.
func (m *machine) save(e *opEntry, own, r, lv int32) {
	for _, s := range m.p.saves[e.save:e.saveEnd] {
		switch {
		case own >= 0 && m.s.Regions[own].HostSaved:
			if lv == 0 && !s.param {
				if w := m.s.Regions[own].Window; w > 0 {
					m.depart(s, w)
				} else {
					m.toHost(s.bytes)
				}
			}
		case r < 0:
			if !s.static {
				m.hold(s.storage, 0)
			}
		default:
			if at := m.level(s.storage, r); at > 0 || !s.static {
				m.hold(s.storage, at)
			}
		}
	}
}

// pack copies tensors that go to the host: a strided one is first made contiguous on the device. Inputs are saved before
// the op allocates its outputs.
func (m *machine) pack(e *opEntry, outputs bool) {
	for _, s := range m.p.saves[e.save:e.saveEnd] {
		if s.output == outputs && !s.dense && !s.param {
			m.alloc(m.ids.clone(), s.bytes, "aten.clone")
			m.free(m.ids.clone(), s.bytes)
		}
	}
}

func (m *machine) toHost(n int64) {
	m.host += n
	m.transfer(n)
	m.res.HostPeak = max(m.res.HostPeak, m.host)
}
