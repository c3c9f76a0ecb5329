package memory

import "ckptplan/internal/model/graph"

// Pass is a part of a step that runs as one: forward or backward of a micro batch, or the optimizer.
type Pass struct {
	Phase Phase
	Micro int32
	// Times is how many passes of the step are like this one, which stands for them: each takes its time as well.
	Times int64
}

// accumulated are the passes of a step over n micro batches, one after the other. The second finds gradients, and those
// after it are like it.
func accumulated(n int64) []Pass {
	ps := []Pass{{Forward, 0, 1}, {Backward, 0, 1}}
	if n > 1 {
		ps = append(ps, Pass{Forward, 1, n - 1}, Pass{Backward, 1, n - 1})
	}
	return append(ps, Pass{Optimizer, 0, 1})
}

// step walks the schedule's passes.
func (m *machine) step() {
	for _, p := range m.s.Passes {
		m.at = Instant{Bytes: m.at.Bytes, Op: graph.None, Phase: p.Phase}
		m.peak = &m.res.Peak[p.Phase]
		m.micro = &m.batches[p.Micro]
		before := m.time
		switch p.Phase {
		case Forward:
			m.begin(p)
			m.forward()
		case Backward:
			m.begin(p)
			m.backward()
		default:
			m.optimize(p)
		}
		if p.Times > 1 {
			m.time = m.time.plus(m.time.minus(before).times(p.Times - 1))
		}
	}
}

// begin records what a pass starts with.
func (m *machine) begin(p Pass) {
	m.at.Aten = "start"
	if m.at.Bytes > m.peak.Bytes {
		*m.peak = m.at
	}
	if m.observer != nil {
		m.observer.Pass(p, &m.at)
	}
}

// enterBlock is the border between two blocks of the chain.
func (m *machine) enterBlock(b int32) {
	m.block = b
	if m.observer != nil {
		m.observer.Block(b, &m.at)
	}
}

// forward runs the forward pass of a micro batch.
func (m *machine) forward() {
	m.micro.prepare(m)
	m.linkFree, m.block = 0, -1
	m.run(-1, 0, graph.OpID(len(m.g.Ops)), 0, graph.None, false)
	m.land(int32(len(m.g.Blocks)))
	m.enterBlock(int32(len(m.g.Blocks)))
	m.res.AfterForward = m.at.Bytes
	for _, st := range m.p.late[0] {
		m.release(st, 0)
	}
	m.res.BeforeBackward = m.at.Bytes
}

// backward runs the tape for a micro batch.
func (m *machine) backward() {
	clear(m.done)
	m.linkFree, m.block = 0, int32(len(m.g.Blocks))
	m.back = m.back[:0]
	grads, base := m.p.tape.grads, m.micro.base
	for _, e := range m.p.tape.events {
		m.at.Op = e.op
		if b := m.g.Ops[e.op].Block; b != m.block {
			if m.s.windowed {
				m.fetch(b)
			}
			m.enterBlock(b)
		}
		switch e.kind {
		case evNode:
			m.unpack(e.op)
		case evAlloc:
			g := &grads[e.x]
			if m.cost != nil {
				m.time.Backward += m.cost.backward[g.kernel]
			}
			m.gradBytes += g.bytes
			m.alloc(m.ids.gradient(base, e.x), g.bytes, g.aten)
		case evFree:
			m.freeGradient(e.x)
		case evApplied:
			m.applied(e.op)
		case evReleased:
			m.released(e.op)
		case evAccumulate:
			leaf := m.p.tape.leaves[e.x]
			if m.grad[leaf.param] != 0 { // added in place
				m.freeGradient(leaf.grad)
			} else {
				m.grad[leaf.param] = m.ids.gradient(base, leaf.grad) + 1
				m.paramGrads += grads[leaf.grad].bytes
			}
		}
	}
	m.enterBlock(-1)
	for _, x := range m.p.tape.left {
		m.freeGradient(x)
	}
	for _, st := range m.p.late[1] {
		m.release(st, 0)
	}
	m.res.AfterBackward = m.at.Bytes
}

func (m *machine) freeGradient(x int32) {
	n := m.p.tape.grads[x].bytes
	m.gradBytes -= n
	m.free(m.ids.gradient(m.micro.base, x), n)
}
