package memory

import "ckptplan/internal/model"

// Phase is a part of a training step.
type Phase uint8

// The phases of a training step.
const (
	Forward Phase = iota
	Backward
	Optimizer
	Phases
)

func (p Phase) String() string { return [...]string{"forward", "backward", "optimizer"}[p] }

// Instant is a point of the timeline: how many bytes are alive, after which op of which phase.
type Instant struct {
	Bytes     int64
	Phase     Phase
	Op        model.OpID // the forward op, or the one whose gradient is made; None in the optimizer
	Aten      string     // the ATen call
	Recompute bool       // the op runs again inside backward
	Event     int        // number of the event in the run
}

// StepResult is what one training step shows.
type StepResult struct {
	Peak           [Phases]Instant
	AfterForward   int64 // alive when forward has returned and the caller still holds the output
	BeforeBackward int64 // alive when backward starts
	AfterBackward  int64
	AfterStep      int64
	HostPeak       int64 // bytes in pinned host memory
	Recomputed     int64 // forward ops run again
}

// machine walks a schedule. Level 0 is the forward pass; a region of depth d is recomputed at level d, where its
// tensors live a second time.
type machine struct {
	s     *Schedule
	p     *Program
	g     *model.Graph
	refs  [][]int32
	calls []call   // innermost last
	cache [][]bool // by level: the instance is a cached output of level 0
	done  []bool   // by region: recomputed in this backward
	grad  []int32  // by parameter: gradient storage + 1
	state *optimizerState

	live  int64
	host  int64
	phase Phase
	op    model.OpID
	again bool
	res   *StepResult
	event int
	// trace, if set, is called after every allocation.
	trace func(aten string)
	// gradLive marks the gradient storages that are alive during backward.
	gradLive []bool
	// states are the bytes of random state that checkpoints have taken: RandomState each.
	states int64
	cost   *costs
	time   Times
	prof   *profiler
	// flights are copies to the host that have not left, in order; linkFree is when the link is done with all it was
	// given; back says, by region, when its copies are on the device again (−1: not asked for).
	flights  []flight
	linkFree int64
	back     []int64
}

func newMachine(s *Schedule) *machine {
	m := &machine{s: s, p: s.Program, g: s.Program.Graph, done: make([]bool, len(s.Regions)), grad: make([]int32, len(s.Program.Graph.Params)), gradLive: make([]bool, len(s.Program.tape.grads))}
	depth := int32(0)
	for i := range s.Regions {
		depth = max(depth, s.Regions[i].Depth)
	}
	for range depth + 1 {
		m.refs = append(m.refs, make([]int32, len(m.g.Storages)))
		m.cache = append(m.cache, nil)
	}
	m.live = m.p.static
	return m
}

func (m *machine) mark(aten string) {
	m.event++
	if m.trace != nil {
		m.trace(aten)
	}
	if m.prof != nil {
		m.prof.peak(m)
	}
	if pk := &m.res.Peak[m.phase]; m.live > pk.Bytes {
		*pk = Instant{Bytes: m.live, Phase: m.phase, Op: m.op, Aten: aten, Recompute: m.again, Event: m.event}
	}
}

// level is where a storage's instance lives as region r sees it: the innermost enclosing region that makes it.
func (m *machine) level(st model.StorageID, r int32) int32 {
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

func containsStorage(s []model.StorageID, x model.StorageID) bool {
	for _, y := range s {
		if x == y {
			return true
		}
	}
	return false
}

func (m *machine) hold(st model.StorageID, lv int32) { m.refs[lv][st]++ }

func (m *machine) release(st model.StorageID, lv int32) {
	r := &m.refs[lv][st]
	if *r--; *r > 0 {
		return
	}
	if *r < 0 {
		panic(invariant("storage " + m.g.Storages[st].Name + " freed twice"))
	}
	if lv > 0 && m.cache[lv] != nil && m.cache[lv][st] {
		m.cache[lv][st] = false
		m.release(st, 0)
		return
	}
	m.live -= m.g.Storages[st].Bytes
	if m.prof != nil {
		m.prof.freed(m, st)
	}
}

// run executes ops first…end−1 inside region r (−1: the forward pass itself) at level lv; stop is the op at which a
// recompute ends early, before or after it runs.
func (m *machine) run(r int32, first, end model.OpID, lv int32, stop model.OpID, stopRuns bool) {
	stores := m.g.Storages
	refs := m.refs[lv]
	for i := first; i < end; i++ {
		if lv == 0 && len(m.flights) > 0 {
			m.land(m.g.Ops[i].Block)
		}
		if m.prof != nil && lv == 0 {
			m.prof.forward(m, m.g.Ops[i].Block)
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
		m.op = i
		cached := lv > 0 && m.s.Regions[r].Cached[i]
		if cached {
			for st := e.alloc; st < e.allocEnd; st++ {
				refs[st] = 1
				if m.cache[lv] == nil {
					m.cache[lv] = make([]bool, len(stores))
				}
				m.cache[lv][st] = true
			}
		} else if e.alloc != e.allocEnd {
			for st := e.alloc; st < e.allocEnd; st++ {
				refs[st] = 1
				m.live += stores[st].Bytes
			}
			m.mark(stores[e.alloc].Name)
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
	m.endCalls(model.None)
}

// call is a checkpoint's call inside another's region, whose frame holds its arguments until it returns: the region
// around it keeps nothing.
type call struct {
	end   model.OpID
	args  []model.StorageID
	level int32 // of the region that is running
}

// endCalls lets go of the arguments of calls that end before op i, or of all.
func (m *machine) endCalls(i model.OpID) {
	for n := len(m.calls) - 1; n >= 0 && (i == model.None || m.calls[n].end <= i); n-- {
		c := m.calls[n]
		for _, st := range c.args {
			m.release(st, m.level(st, c.level))
		}
		m.calls = m.calls[:n]
	}
}

// save takes references for what autograd keeps of one op.
func (m *machine) save(e *opEntry, own, r, lv int32) {
	for _, s := range m.p.saves[e.save:e.saveEnd] {
		switch {
		case own >= 0 && m.s.Regions[own].HostSaved:
			if lv == 0 && !s.param {
				m.pack(e, s)
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

// pack is a copy to the host: a strided tensor is first made contiguous on the device. Inputs are saved before the op
// allocates its outputs.
func (m *machine) pack(e *opEntry, s saveEntry) {
	if s.dense {
		return
	}
	extra := s.bytes
	if !s.output {
		for st := e.alloc; st < e.allocEnd; st++ {
			extra -= m.g.Storages[st].Bytes
		}
	}
	m.live += extra
	m.mark("aten.clone")
	m.live -= extra
}

func (m *machine) toHost(n int64) {
	m.host += n
	m.transfer(n)
	m.res.HostPeak = max(m.res.HostPeak, m.host)
}

// enter keeps the random state of every region below r that starts at op i, and its inputs for the region around it.
func (m *machine) enter(i model.OpID, r, own int32) {
	for c := own; c != r; c = m.s.Regions[c].Parent {
		reg := &m.s.Regions[c]
		if reg.First != i || reg.HostSaved || reg.last == model.None {
			continue
		}
		m.takeState()
		if reg.Parent != r {
			for _, st := range reg.Inputs {
				m.hold(st, m.level(st, r))
			}
			m.calls = append(m.calls, call{reg.End, reg.Inputs, r})
			continue
		}
		for _, st := range reg.Inputs {
			if r < 0 {
				m.hold(st, 0)
			} else {
				m.hold(st, m.level(st, r))
			}
		}
		if r < 0 {
			for _, st := range reg.Sent {
				m.toHost(m.g.Storages[st].Bytes)
			}
		}
	}
}

// takeState copies the random generator's state. A region's own copy lives as long as its inputs; a recompute takes one
// to put back, and one for each region inside that it calls again, and lets go of them at its end.
// Source: torch/utils/checkpoint.py, _checkpoint_without_reentrant_generator_impl; torch/random.py, fork_rng.
func (m *machine) takeState() {
	m.live += m.g.RandomState
	m.states += m.g.RandomState
}

// ensure recomputes region r, and before it the regions around it, if backward has not done so yet.
func (m *machine) ensure(r int32) {
	if r < 0 || m.done[r] {
		return
	}
	reg := &m.s.Regions[r]
	m.ensure(reg.Parent)
	m.done[r] = true
	if reg.HostSaved {
		return
	}
	op, again := m.op, m.again
	m.again = true
	lv := reg.Depth
	states := m.states
	m.takeState()
	if reg.HostInputs {
		for _, st := range reg.Sent {
			m.refs[lv][st] = 1
			m.live += m.g.Storages[st].Bytes
			m.host -= m.g.Storages[st].Bytes
			m.transfer(m.g.Storages[st].Bytes)
		}
		m.mark("aten._to_copy")
	}
	for _, st := range reg.Recast {
		m.op = m.g.Storages[st].Born
		m.refs[lv][st] = 1
		m.live += m.g.Storages[st].Bytes
		m.mark(m.g.Storages[st].Name)
		if m.cost != nil {
			m.spend(m.op)
		}
	}
	m.run(r, reg.First, reg.End, lv, reg.stop, reg.stopRuns)
	m.leave(reg, lv)
	m.live -= m.states - states
	m.states = states
	for _, st := range reg.Recast {
		m.release(st, lv)
	}
	for _, st := range reg.Sent {
		m.release(st, lv)
	}
	if reg.Parent >= 0 {
		for _, st := range reg.Inputs {
			m.release(st, m.level(st, reg.Parent))
		}
	}
	m.op, m.again = op, again
}

// leave lets go of the locals that the recomputed function still held when it stopped.
func (m *machine) leave(reg *Region, lv int32) {
	for i := reg.First; i <= reg.stop; i++ {
		if i == reg.stop && !reg.stopRuns {
			break
		}
		e := &m.p.ops[i]
		for st := e.alloc; st < e.allocEnd; st++ {
			if m.g.Storages[st].Drop >= reg.stop {
				m.release(model.StorageID(st), lv)
			}
		}
	}
}

// unpack is the start of a node: what a region's checkpoint dropped is recomputed, what is on the host comes back.
func (m *machine) unpack(i model.OpID) {
	e := &m.p.ops[i]
	own := m.s.Owner[i]
	if own < 0 || e.save == e.saveEnd {
		return
	}
	m.ensure(own)
	if m.s.Regions[own].Window > 0 {
		m.arrived(own)
	} else if m.s.Regions[own].HostSaved {
		for _, s := range m.p.saves[e.save:e.saveEnd] {
			if !s.param {
				m.live += s.bytes
				m.host -= s.bytes
				m.mark("aten._to_copy")
				m.transfer(s.bytes)
			}
		}
	}
}

// applied lets go of recomputed and returned tensors once a node's formula is done.
func (m *machine) applied(i model.OpID) {
	e := &m.p.ops[i]
	own := m.s.Owner[i]
	if own < 0 {
		return
	}
	host := m.s.Regions[own].HostSaved
	for _, s := range m.p.saves[e.save:e.saveEnd] {
		switch {
		case s.param:
		case host:
			m.live -= s.bytes
		default:
			if at := m.level(s.storage, own); at > 0 || !s.static {
				m.release(s.storage, at)
			}
		}
	}
}

// released is the end of a node: its saved tensors go, and with the last node of a checkpoint its inputs.
func (m *machine) released(i model.OpID) {
	e := &m.p.ops[i]
	own := m.s.Owner[i]
	if own < 0 {
		for _, s := range m.p.saves[e.save:e.saveEnd] {
			if !s.static {
				m.release(s.storage, 0)
			}
		}
		return
	}
	for r := own; r >= 0; r = m.s.Regions[r].Parent {
		reg := &m.s.Regions[r]
		if reg.last != i || reg.HostSaved {
			continue
		}
		m.live -= m.g.RandomState
		m.states -= m.g.RandomState
		if reg.Parent >= 0 {
			continue
		}
		for _, st := range reg.Inputs {
			m.release(st, 0)
		}
		m.dropCache(reg)
	}
}

// dropCache lets go of cached outputs that the recompute, which stopped early, did not come to.
func (m *machine) dropCache(reg *Region) {
	for i := range reg.Cached {
		if i > reg.stop || i == reg.stop && !reg.stopRuns {
			e := &m.p.ops[i]
			for st := e.alloc; st < e.allocEnd; st++ {
				m.release(model.StorageID(st), 0)
			}
		}
	}
}

// forward runs the forward pass.
func (m *machine) forward() {
	m.phase, m.again = Forward, false
	m.linkFree = 0
	if m.prof != nil {
		m.prof.reset()
	}
	m.mark("start")
	m.run(-1, 0, model.OpID(len(m.g.Ops)), 0, model.None, false)
	m.land(int32(len(m.g.Blocks)))
	if m.prof != nil {
		m.prof.closeForward(m)
		m.prof.reset()
	}
	m.res.AfterForward = m.live
	for _, st := range m.p.late[0] {
		m.release(st, 0)
	}
	m.res.BeforeBackward = m.live
}

// backward runs the tape.
func (m *machine) backward() {
	m.phase = Backward
	m.op = model.None
	m.mark("start")
	clear(m.done)
	m.linkFree = 0
	m.back = m.back[:0]
	at := int32(len(m.g.Blocks))
	grads := m.p.tape.grads
	var kept, held int64
	for _, e := range m.p.tape.events {
		m.op = e.op
		if b := m.g.Ops[e.op].Block; b != at && m.s.windowed {
			at = b
			m.fetch(b)
		}
		if m.prof != nil {
			m.prof.backward(m, m.g.Ops[e.op].Block, kept, held-kept)
		}
		switch e.kind {
		case evNode:
			m.unpack(e.op)
		case evAlloc:
			m.live += grads[e.x].bytes
			held += grads[e.x].bytes
			m.gradLive[e.x] = true
			if m.cost != nil {
				m.time.Backward += m.cost.backward[grads[e.x].kernel]
			}
			m.mark(grads[e.x].aten)
		case evFree:
			m.gradLive[e.x] = false
			m.live -= grads[e.x].bytes
			held -= grads[e.x].bytes
		case evApplied:
			m.applied(e.op)
		case evReleased:
			m.released(e.op)
		case evAccumulate:
			leaf := m.p.tape.leaves[e.x]
			if m.grad[leaf.param] != 0 { // added in place
				m.gradLive[leaf.grad] = false
				m.live -= grads[leaf.grad].bytes
				held -= grads[leaf.grad].bytes
			} else {
				m.grad[leaf.param] = leaf.grad + 1
				kept += grads[leaf.grad].bytes
			}
		}
	}
	if m.prof != nil {
		m.prof.closeBackward(m, kept, held-kept)
	}
	m.live -= held - kept // gradients of leaves that are no parameters, and the root
	for _, st := range m.p.late[1] {
		m.release(st, 0)
	}
	clear(m.gradLive)
	m.res.AfterBackward = m.live
}
