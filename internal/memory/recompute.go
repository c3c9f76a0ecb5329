package memory

import "ckptplan/internal/model/graph"

// enter keeps the random state of every region below r that starts at op i, and its inputs for the region around it.
func (m *machine) enter(i graph.OpID, r, own int32) {
	for c := own; c != r; c = m.s.Regions[c].Parent {
		reg := &m.s.Regions[c]
		if reg.First != i || reg.HostSaved || reg.last == graph.None {
			continue
		}
		if r < 0 {
			m.takeState(c, 0)
		} else {
			m.takeState(c, m.s.Regions[r].Depth)
		}
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

// call is a checkpoint's call inside another's region, whose frame holds its arguments until it returns: the region
// around it keeps nothing.
type call struct {
	end   graph.OpID
	args  []graph.StorageID
	level int32 // of the region that is running
}

// endCalls frees the arguments of calls that end before op i, or of all.
func (m *machine) endCalls(i graph.OpID) {
	for n := len(m.calls) - 1; n >= 0 && (i == graph.None || m.calls[n].end <= i); n-- {
		c := m.calls[n]
		for _, st := range c.args {
			m.release(st, m.level(st, c.level))
		}
		m.calls = m.calls[:n]
	}
}

// takeState copies the random generator's state for a region. Its own copy (level 0) lives as long as its inputs; a
// recompute at a level takes one to put back, and one for each region inside that it calls again, and frees them at its end.
// Source: torch/utils/checkpoint.py, _checkpoint_without_reentrant_generator_impl; torch/random.py, fork_rng.
func (m *machine) takeState(region, level int32) {
	if m.g.RandomState == 0 {
		return
	}
	id := m.ids.random(m.micro.base, region, level)
	if level > 0 {
		m.taken = append(m.taken, id)
	}
	m.alloc(id, m.g.RandomState, "random state")
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
	op, again := m.at.Op, m.at.Recompute
	m.at.Recompute = true
	lv := reg.Depth
	taken := len(m.taken)
	m.takeState(r, lv)
	if reg.HostInputs {
		for _, st := range reg.Sent {
			m.micro.refs[lv][st] = 1
			m.host -= m.g.Storages[st].Bytes
			m.transfer(m.g.Storages[st].Bytes)
			m.alloc(m.ids.storage(m.micro.base, st, lv), m.g.Storages[st].Bytes, "aten._to_copy")
		}
	}
	for _, st := range reg.Recast {
		m.at.Op = m.g.Storages[st].Born
		m.micro.refs[lv][st] = 1
		m.alloc(m.ids.storage(m.micro.base, st, lv), m.g.Storages[st].Bytes, m.g.Storages[st].Name)
		if m.cost != nil {
			m.spend(m.at.Op)
		}
	}
	m.run(r, reg.First, reg.End, lv, reg.stop, reg.stopRuns)
	m.leave(reg, lv)
	for _, id := range m.taken[taken:] {
		m.free(id, m.g.RandomState)
	}
	m.taken = m.taken[:taken]
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
	m.at.Op, m.at.Recompute = op, again
}

// leave frees the locals that the recomputed function still had when it stopped.
func (m *machine) leave(reg *Region, lv int32) {
	for i := reg.First; i <= reg.stop; i++ {
		if i == reg.stop && !reg.stopRuns {
			break
		}
		e := &m.p.ops[i]
		for st := e.alloc; st < e.allocEnd; st++ {
			if m.g.Storages[st].Drop >= reg.stop {
				m.release(graph.StorageID(st), lv)
			}
		}
	}
}

// unpack is the start of a node: tensors that a region's checkpoint dropped are recomputed, those on the host come back.
func (m *machine) unpack(i graph.OpID) {
	e := &m.p.ops[i]
	own := m.s.Owner[i]
	if own < 0 || e.save == e.saveEnd {
		return
	}
	m.ensure(own)
	if m.s.Regions[own].Window > 0 {
		m.arrived(own)
	} else if m.s.Regions[own].HostSaved {
		for k := e.save; k < e.saveEnd; k++ {
			if s := &m.p.saves[k]; !s.param {
				m.host -= s.bytes
				m.alloc(m.ids.returned(m.micro.base, k), s.bytes, "aten._to_copy")
				m.transfer(s.bytes)
			}
		}
	}
}

// applied frees recomputed and returned tensors once a node's formula is done.
func (m *machine) applied(i graph.OpID) {
	e := &m.p.ops[i]
	own := m.s.Owner[i]
	if own < 0 {
		return
	}
	host := m.s.Regions[own].HostSaved
	for k := e.save; k < e.saveEnd; k++ {
		s := &m.p.saves[k]
		switch {
		case s.param:
		case host:
			m.free(m.ids.returned(m.micro.base, k), s.bytes)
		default:
			if at := m.level(s.storage, own); at > 0 || !s.static {
				m.release(s.storage, at)
			}
		}
	}
}

// released ends a node: its saved tensors are freed, and with the last node of a checkpoint its inputs.
func (m *machine) released(i graph.OpID) {
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
		if m.g.RandomState > 0 {
			m.free(m.ids.random(m.micro.base, r, 0), m.g.RandomState)
		}
		if reg.Parent >= 0 {
			continue
		}
		for _, st := range reg.Inputs {
			m.release(st, 0)
		}
		m.dropCache(reg)
	}
}

// dropCache frees cached outputs that the recompute, which stopped early, did not reach.
func (m *machine) dropCache(reg *Region) {
	for i := range reg.Cached {
		if i > reg.stop || i == reg.stop && !reg.stopRuns {
			e := &m.p.ops[i]
			for st := e.alloc; st < e.allocEnd; st++ {
				m.release(graph.StorageID(st), 0)
			}
		}
	}
}
