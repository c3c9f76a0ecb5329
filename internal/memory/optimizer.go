package memory

import (
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
)

// optimize updates the parameters whose gradients backward made, and frees the gradients (set_to_none).
func (m *machine) optimize(p Pass) {
	row := m.s.Optimizer
	if row.Passes > 0 {
		m.begin(p)
		m.addState()
		m.update()
		if m.cost != nil {
			m.time.Optimizer += m.cost.sheet.OpTime(0, m.paramGrads*row.Passes, dtype.F32, false)
		}
	}
	m.zeroGrad()
	m.res.AfterStep = m.at.Bytes
}

// update makes and frees the row's temporaries.
func (m *machine) update() {
	row := m.s.Optimizer
	each := func(k int, do func(id ID, bytes int64)) {
		for i := range m.grad {
			if m.grad[i] != 0 {
				do(m.ids.temporary(k, i), m.g.Params[i].Bytes)
			}
		}
	}
	for k, aten := range row.AtOnce {
		each(k, func(id ID, bytes int64) { m.alloc(id, bytes, aten) })
	}
	for k := range row.AtOnce {
		each(k, m.free)
	}
	if n := len(row.OneByOne) - 1; n >= 0 {
		first, last := len(row.AtOnce), graph.ParamID(graph.None)
		for _, i := range m.g.Step.Registered {
			if m.grad[i] == 0 {
				continue
			}
			for k, aten := range row.OneByOne {
				m.alloc(m.ids.temporary(first+k, int(i)), m.g.Params[i].Bytes, aten)
			}
			for k := range n {
				m.free(m.ids.temporary(first+k, int(i)), m.g.Params[i].Bytes)
			}
			if last >= 0 {
				m.free(m.ids.temporary(first+n, int(last)), m.g.Params[last].Bytes)
			}
			last = i
		}
		if last >= 0 {
			m.free(m.ids.temporary(first+n, int(last)), m.g.Params[last].Bytes)
		}
	}
}

// addState allocates the optimizer state that the first step makes, for the parameters that backward reaches.
func (m *machine) addState() {
	row := m.s.Optimizer
	if m.hasState || len(row.State) == 0 && row.Counter == 0 {
		return
	}
	m.hasState = true
	reached := make([]bool, len(m.g.Params))
	for _, l := range m.p.tape.leaves {
		reached[l.param] = true
	}
	shared := false
	for i, yes := range reached {
		if !yes {
			continue
		}
		if row.Counter > 0 {
			m.alloc(m.ids.state(len(row.State), i), row.Counter, "aten.zeros")
		}
		p := &m.g.Params[i]
		for k, aten := range row.State {
			if n := row.StateBytes(k, p.Count, p.Bytes); n > 0 {
				m.alloc(m.ids.state(k, i), n, aten)
			}
		}
		if row.Shared.Bytes > 0 && p.Count >= row.Shared.From && !shared {
			shared = true
			m.alloc(m.ids.shared(), row.Shared.Bytes, "aten._to_copy")
		}
	}
}

// stateBytes is the size of a buffer OfState.
func (m *machine) stateBytes(index int32) int64 {
	row, n := m.s.Optimizer, int32(len(m.g.Params))
	switch k := int(index / n); {
	case k < len(row.State):
		p := &m.g.Params[index%n]
		return row.StateBytes(k, p.Count, p.Bytes)
	case k == len(row.State):
		return row.Counter
	}
	return row.Shared.Bytes
}

// zeroGrad frees all gradients of parameters.
func (m *machine) zeroGrad() {
	for i, id := range m.grad {
		if id != 0 {
			n := m.p.tape.grads[m.ids.Of(id-1).Index].bytes
			m.grad[i] = 0
			m.gradBytes -= n
			m.paramGrads -= n
			m.free(id-1, n)
		}
	}
}
